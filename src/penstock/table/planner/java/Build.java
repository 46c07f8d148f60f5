package penstock;

import java.io.File;
import org.codehaus.commons.compiler.CompilerFactoryFactory;
import org.codehaus.commons.compiler.ICompiler;

/** Compiles sources into a folder of classes, with the compiler that the planner brings: no JDK is needed. */
public class Build {
    public static void main(String[] arguments) throws Exception {
        ICompiler compiler =
            CompilerFactoryFactory.getDefaultCompilerFactory(Build.class.getClassLoader()).newCompiler();
        compiler.setSourceVersion(8);
        compiler.setTargetVersion(8);
        compiler.setDestinationDirectory(new File(arguments[0]), false);
        File[] sources = new File[arguments.length - 1];
        for (int i = 0; i < sources.length; i++) {
            sources[i] = new File(arguments[i + 1]);
        }
        compiler.compile(sources);
    }
}
