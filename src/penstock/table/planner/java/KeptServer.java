package penstock;

import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.Channels;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.Base64;
import java.util.Map;
import java.util.Optional;

/**
 * Lends this process to one program after the other, by a socket in a directory that only its user can read.
 *
 * Who connects gets a line with the process's id, and sends the token of the file beside the socket and its own id.
 * While a program has the process, neither file is there. The process ends if no program comes in time, if enough others
 * are free, or if a program does not return it.
 */
public class KeptServer {
    private static final int TOKEN_BYTES = 16;
    /** The next program of a script comes within this time. */
    private static final long NEXT_MILLISECONDS = 1000;
    private final Path directory;
    private final long idleMilliseconds;
    private final int freeMax;
    private final long id = ProcessHandle.current().pid();

    KeptServer(String directory, long idleSeconds, int freeMax) {
        this.directory = Paths.get(directory, new String[0]);
        // 0 would be for ever.
        this.idleMilliseconds = Math.max(1, 1000 * idleSeconds);
        this.freeMax = freeMax;
    }

    void serve() throws Exception {
        boolean returned = true;
        while (returned && free() < freeMax) {
            byte[] bytes = new byte[TOKEN_BYTES];
            new SecureRandom().nextBytes(bytes);
            String token = Base64.getUrlEncoder().withoutPadding().encodeToString(bytes);
            SocketChannel connection = next(token);
            returned = connection != null && lend(connection, token);
        }
    }

    private int free() {
        int count = 0;
        String[] names = directory.toFile().list();
        for (int i = 0; names != null && i < names.length; i++) {
            count += names[i].endsWith(".sock") ? 1 : 0;
        }
        return count;
    }

    /** Waits for a program. Null: none has come. */
    private SocketChannel next(String token) throws Exception {
        File bound = new File(directory.toFile(), id + ".new");
        File socket = new File(directory.toFile(), id + ".sock");
        File secret = new File(directory.toFile(), id + ".token");
        ServerSocketChannel listener = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        try {
            bound.delete();
            secret.delete();
            listener.bind(UnixDomainSocketAddress.of(bound.toPath()));
            Files.setPosixFilePermissions(bound.toPath(), PosixFilePermissions.fromString("rw-------"));
            Files.createFile(secret.toPath(), PosixFilePermissions.asFileAttribute(
                PosixFilePermissions.fromString("rw-------")));
            Files.write(secret.toPath(), token.getBytes("UTF-8"), new OpenOption[] {StandardOpenOption.WRITE});
            // Only now: a program that finds a socket without a listener takes it for that of a killed process.
            bound.renameTo(socket);
            listener.configureBlocking(false);
            Selector selector = Selector.open();
            listener.register(selector, SelectionKey.OP_ACCEPT);
            boolean isCalled = selector.select(Math.min(NEXT_MILLISECONDS, idleMilliseconds)) > 0;
            if (!isCalled) {
                // What the last program has left is not needed, and no program waits now.
                System.gc();
                isCalled = selector.select(idleMilliseconds) > 0;
            }
            SocketChannel connection = isCalled ? listener.accept() : null;
            selector.close();
            return connection;
        } finally {
            socket.delete();
            bound.delete();
            secret.delete();
            listener.close();
        }
    }

    private boolean lend(SocketChannel connection, String token) throws Exception {
        try {
            connection.configureBlocking(true);
            OutputStream output = Channels.newOutputStream(connection);
            output.write(("{\"pid\": " + id + "}\n").getBytes("UTF-8"));
            output.flush();
            BufferedReader requests =
                new BufferedReader(new InputStreamReader(Channels.newInputStream(connection), "UTF-8"));
            String line = requests.readLine();
            if (line == null) {
                return false;
            }
            Map request = (Map) PlannerServer.JSON.readValue(line, Map.class);
            byte[] given = String.valueOf(request.get("token")).getBytes("UTF-8");
            if (!MessageDigest.isEqual(given, token.getBytes("UTF-8"))) {
                return false;
            }
            Optional program = ProcessHandle.of(((Number) request.get("pid")).longValue());
            if (program.isPresent()) {
                PlannerServer.endWith((ProcessHandle) program.get());
            }
            output.write("{\"ok\": true}\n".getBytes("UTF-8"));
            output.flush();
            return PlannerServer.serve(requests, output);
        } finally {
            connection.close();
        }
    }
}
