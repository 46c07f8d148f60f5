import java.io.*; import java.nio.charset.StandardCharsets;
import org.apache.flink.runtime.rest.util.RestMapperUtils;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.*;
/** Reads `path, class, JSON` from lines, separated by tabs, as Flink's own clients read answers; unknown fields are errors. */
public class Decode { public static void main(String[] a) throws Exception {
  ObjectMapper m = RestMapperUtils.getStrictObjectMapper().copy().enable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES);
  BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)); String line;
  while ((line = in.readLine()) != null) { String[] p = line.split("\t", 3);
    try { Object o = m.readValue(p[2], Class.forName(p[1])); System.out.println("ok " + p[0]); }
    catch (Throwable e) { System.out.println("FAILED " + p[0] + " " + e.getMessage().replace('\n', ' ')); } } } }
