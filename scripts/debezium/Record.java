import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.CloudEvents;
import io.debezium.engine.format.Json;
import io.debezium.engine.format.KeyValueHeaderChangeEventFormat;
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;

/**
 * Runs one engine for each DIR/NAME.properties, all at once, and writes what it emits to DIR/NAME.out: topic, key, value
 * and headers, parted by tabs. Prints "ready" once each has read the snapshot of the table that ends in "done", and ends
 * when each has seen a second record of it.
 */
public class Record {
    public static void main(String[] args) throws Exception {
        List<Path> files = new ArrayList<>();
        try (DirectoryStream<Path> dir = Files.newDirectoryStream(Path.of(args[0]), "*.properties")) {
            dir.forEach(files::add);
        }
        CountDownLatch ready = new CountDownLatch(files.size()), done = new CountDownLatch(files.size());
        ExecutorService pool = Executors.newCachedThreadPool();
        List<DebeziumEngine<?>> engines = new ArrayList<>();
        for (Path file : files) {
            Properties p = new Properties();
            try (Reader in = Files.newBufferedReader(file)) {
                p.load(in);
            }
            boolean events = p.getProperty("record.cloudevents") != null;
            String name = file.toString().replace(".properties", "");
            Writer out = Files.newBufferedWriter(Path.of(name + ".out"));
            int[] seen = {0};
            var format = events ? KeyValueHeaderChangeEventFormat.of(Json.class, CloudEvents.class, Json.class)
                    : KeyValueHeaderChangeEventFormat.of(Json.class, Json.class, Json.class);
            DebeziumEngine<ChangeEvent<String, String>> engine = (DebeziumEngine) DebeziumEngine.create(format).using(p)
                    .using((DebeziumEngine.CompletionCallback) (ok, message, error) -> {
                        if (!ok) {
                            System.err.println(file + ": " + message);
                            if (error != null) error.printStackTrace();
                            System.exit(1);
                        }
                    })
                    .notifying(e -> {
                        ChangeEvent<String, String> event = (ChangeEvent<String, String>) (Object) e;
                        try {
                            StringBuilder headers = new StringBuilder();
                            event.headers().forEach(h -> headers.append('\t').append(h.getKey()).append('=').append(h.getValue()));
                            out.write(event.destination() + "\t" + event.key() + "\t" + event.value() + headers + "\n");
                            out.flush();
                        } catch (IOException x) {
                            throw new UncheckedIOException(x);
                        }
                        if (event.destination().endsWith("done")) {
                            (seen[0]++ == 0 ? ready : done).countDown();
                        }
                    }).build();
            engines.add(engine);
            pool.execute(engine);
        }
        ready.await();
        System.out.println("ready");
        System.out.flush();
        done.await();
        for (DebeziumEngine<?> e : engines) {
            e.close();
        }
        System.exit(0);
    }
}
