import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.runtime.util.EnvironmentInformation;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Flink: a source, an operator that evaluates and a sink in one chain, as every event is evaluated after the one before it.
 * Nothing is serialized on the way; the state is operator state, which a checkpoint would store.
 */
public final class FlinkMonitor {
    static final long DAY = 86_400_000_000_000L;
    static final long HORIZON = 730 * DAY;
    /** Events that a warm-up job evaluates first: by then the JVM has compiled the code of the measured job. */
    static final int WARM = 300_000;

    /** The job runs in this process, so its input and output are passed through static fields. */
    static Log log;
    static final List<Alarm> alarms = new ArrayList<>();
    static volatile long begun;
    static volatile long done;

    /** Task, file of events, start of the clock, end of it or `-`, limit in seconds. */
    public static void main(String[] arguments) throws Exception {
        String task = arguments[0];
        long start = Long.parseLong(arguments[2]);
        double limit = Double.parseDouble(arguments[4]);
        log = Log.read(Path.of(arguments[1]), arguments[3]);
        run(task, start, WARM, limit);
        boolean ended = run(task, start, log.size(), limit);
        double seconds = ((ended ? done : System.nanoTime()) - begun) / 1e9;
        report(seconds, ended && seconds <= limit);
        System.exit(0);
    }

    /** Evaluates this number of events, starting again after the last. Returns whether it completed them. */
    static boolean run(String task, long start, int count, double limit) throws Exception {
        alarms.clear();
        StreamExecutionEnvironment flink =
                StreamExecutionEnvironment.createLocalEnvironment(1, new Configuration());
        flink.getConfig().enableObjectReuse();
        flink.fromSequence(0, count - 1)
                .map(number -> log.event((int) (number % log.size()), number == 0))
                .returns(Event.class)
                .process(task.startsWith("odds")
                        ? new Odds(start, task.equals("odds-exact"))
                        : new Parity(start, task.endsWith("daily"), task.startsWith("seminar")))
                .sinkTo(new Alarms());
        JobClient job = flink.executeAsync();
        // The time of starting and stopping a job is not counted.
        long patience = (long) (limit * 1e3) + 30_000;
        try {
            job.getJobExecutionResult().get(patience, TimeUnit.MILLISECONDS);
            return true;
        } catch (TimeoutException late) {
            return false;
        }
    }

    static void report(double seconds, boolean ended) {
        long checksum = 0;
        for (Alarm alarm : alarms) {
            long instance = alarm.seminar == null ? 0 : hash(alarm.seminar);
            for (long word : new long[] {alarm.time, alarm.trigger, instance}) {
                checksum = mix(checksum, word);
            }
        }
        System.out.printf(
                "{\"seconds\": %s, \"events\": %d, \"count\": %d, \"checksum\": %s, \"ended\": %b, \"version\": \"%s\"}%n",
                seconds, log.size() - 1, alarms.size(), Long.toUnsignedString(checksum), ended,
                EnvironmentInformation.getVersion() + ", Java " + System.getProperty("java.version"));
    }

    static long mix(long hash, long word) {
        return (Long.rotateLeft(hash, 5) ^ word) * 0x517CC1B727220A95L;
    }

    /** Names of seminars need no escapes in JSON. */
    static long hash(String seminar) {
        long hash = 1;
        for (byte letter : ("[\"" + seminar + "\"]").getBytes()) {
            hash = mix(hash, letter & 0xff);
        }
        return hash;
    }

    public enum Kind { APPLIED, ACCEPTED, SCREENED, OFFENDED, END }

    public static final class Event {
        public Kind kind;
        public long time;
        public long person;
        public String group;
        public String seminar;
        public boolean high;
    }

    public static final class Alarm {
        public long time;
        public int trigger;
        public String seminar;

        public Alarm() {}

        Alarm(long time, int trigger, String seminar) {
            this.time = time;
            this.trigger = trigger;
            this.seminar = seminar;
        }
    }

    /** The events, and the end of the clock after them. */
    static final class Log {
        private final List<Event> events = new ArrayList<>();

        static Log read(Path path, String end) throws IOException {
            Log log = new Log();
            Map<String, String> names = new HashMap<>();
            try (BufferedReader lines = Files.newBufferedReader(path)) {
                boolean screenings = lines.readLine().contains("score");
                for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                    String[] fields = line.split(",", -1);
                    Event event = new Event();
                    event.time = Long.parseLong(fields[0]);
                    String last = fields[fields.length - 1];
                    if (screenings) {
                        event.kind = fields[1].equals("SCREEN") ? Kind.SCREENED : Kind.OFFENDED;
                        event.person = Long.parseLong(fields[2]);
                        event.group = names.computeIfAbsent(fields[3], name -> name);
                        event.high = event.kind == Kind.SCREENED && Long.parseLong(last) > 6;
                    } else if (last.isEmpty()) {
                        event.kind = Kind.APPLIED;
                        event.person = Long.parseUnsignedLong(fields[1]);
                        event.group = names.computeIfAbsent(fields[2], name -> name);
                        event.seminar = fields.length == 5 ? names.computeIfAbsent(fields[3], name -> name) : "";
                    } else {
                        event.kind = Kind.ACCEPTED;
                        event.person = Long.parseUnsignedLong(last);
                    }
                    log.events.add(event);
                }
            }
            Event over = new Event();
            over.kind = Kind.END;
            over.time = end.equals("-") ? Long.MIN_VALUE : Long.parseLong(end);
            log.events.add(over);
            return log;
        }

        int size() {
            return events.size();
        }

        Event event(int number, boolean first) {
            if (first) {
                begun = System.nanoTime();
            }
            return events.get(number);
        }
    }

    /** Collects the verdicts. */
    static final class Alarms implements Sink<Alarm> {
        @Override
        public SinkWriter<Alarm> createWriter(WriterInitContext context) {
            return new SinkWriter<>() {
                @Override
                public void write(Alarm alarm, Context context) {
                    alarms.add(alarm);
                }

                @Override
                public void flush(boolean endOfInput) {}

                @Override
                public void close() {}
            };
        }
    }

    /** Evaluates in order. Its state is an `M`, which is part of checkpoints. */
    abstract static class Monitor<M> extends ProcessFunction<Event, Alarm> implements CheckpointedFunction {
        private final Class<M> kind;
        private transient ListState<M> kept;
        transient M memory;

        Monitor(Class<M> kind) {
            this.kind = kind;
        }

        abstract M nothing();

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            kept = context.getOperatorStateStore().getListState(new ListStateDescriptor<>("memory", kind));
            memory = nothing();
            for (M earlier : kept.get()) {
                memory = earlier;
            }
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {
            kept.update(List.of(memory));
        }
    }

    public static final class Person {
        public int seminar;
        public String group;
        public boolean accepted;
    }

    /** Number of applications and acceptances. */
    public static final class Counts {
        public long applied;
        public long accepted;

        double rate() {
            return (accepted + 0.5 * 24.0) / (applied + 24.0);
        }
    }

    public static final class Seminar {
        public String name;
        public Map<String, Counts> groups = new HashMap<>();
        public boolean violated;

        void judge() {
            double least = Double.POSITIVE_INFINITY;
            double most = Double.NEGATIVE_INFINITY;
            for (Counts counts : groups.values()) {
                double rate = counts.rate();
                least = Math.min(least, rate);
                most = Math.max(most, rate);
            }
            violated = most - least > 0.1;
        }
    }

    public static final class Applicants {
        public Map<Long, Person> people = new HashMap<>();
        /** In order of appearance, and their numbers. */
        public List<Seminar> seminars = new ArrayList<>();
        public Map<String, Integer> numbers = new HashMap<>();
        public long next;
    }

    /** Demographic parity, and conditional parity where there are seminars. */
    static final class Parity extends Monitor<Applicants> {
        private final long start;
        private final boolean daily;
        private final boolean conditional;

        Parity(long start, boolean daily, boolean conditional) {
            super(Applicants.class);
            this.start = start;
            this.daily = daily;
            this.conditional = conditional;
        }

        @Override
        Applicants nothing() {
            Applicants empty = new Applicants();
            empty.next = daily ? start + DAY : Long.MAX_VALUE;
            return empty;
        }

        @Override
        public void processElement(Event event, Context context, Collector<Alarm> out) {
            for (; memory.next < event.time; memory.next += DAY) {
                check(memory.next, out);
            }
            switch (event.kind) {
                case APPLIED -> {
                    Person person = new Person();
                    person.seminar = memory.numbers.computeIfAbsent(event.seminar, this::open);
                    person.group = event.group;
                    memory.people.put(event.person, person);
                    Seminar seminar = memory.seminars.get(person.seminar);
                    seminar.groups.computeIfAbsent(person.group, group -> new Counts()).applied++;
                    seminar.judge();
                }
                case ACCEPTED -> {
                    Person person = memory.people.get(event.person);
                    if (person != null && !person.accepted) {
                        person.accepted = true;
                        Seminar seminar = memory.seminars.get(person.seminar);
                        seminar.groups.get(person.group).accepted++;
                        seminar.judge();
                    }
                }
                default -> {
                    done = System.nanoTime();
                    return;
                }
            }
            if (!daily) {
                check(event.time, out);
            }
        }

        private int open(String name) {
            Seminar seminar = new Seminar();
            seminar.name = name;
            memory.seminars.add(seminar);
            return memory.seminars.size() - 1;
        }

        private void check(long now, Collector<Alarm> out) {
            for (Seminar seminar : memory.seminars) {
                if (seminar.violated) {
                    out.collect(new Alarm(now, 0, conditional ? seminar.name : null));
                }
            }
        }
    }

    public static final class Defendant {
        public String group;
        public boolean high;
        public boolean offended;
    }

    /** People whose horizon is over: their number and how many had a high score; first those who re-offended. */
    public static final class Scores {
        public long[] high = {50, 50};
        public long[] total = {100, 100};
    }

    public static final class Defendants {
        public Map<Long, Defendant> people = new HashMap<>();
        /** FIFO queue of deadlines and ids: all have the same horizon, so they expire in insertion order. */
        public ArrayDeque<long[]> deadlines = new ArrayDeque<>();
        public Map<String, Scores> groups = new HashMap<>();
        public long next;
    }

    /** Equalized odds, once a day. */
    static final class Odds extends Monitor<Defendants> {
        private final long start;
        private final boolean exact;

        Odds(long start, boolean exact) {
            super(Defendants.class);
            this.start = start;
            this.exact = exact;
        }

        @Override
        Defendants nothing() {
            Defendants empty = new Defendants();
            empty.next = start + DAY;
            return empty;
        }

        @Override
        public void processElement(Event event, Context context, Collector<Alarm> out) {
            // An event at the exact time of a check or a deadline counts.
            run(event.kind == Kind.END ? event.time : event.time - 1, out);
            switch (event.kind) {
                case SCREENED -> {
                    memory.groups.computeIfAbsent(event.group, group -> new Scores());
                    Defendant person = new Defendant();
                    person.group = event.group;
                    person.high = event.high;
                    memory.people.put(event.person, person);
                    memory.deadlines.add(new long[] {deadline(event.time), event.person});
                }
                case OFFENDED -> {
                    Defendant person = memory.people.get(event.person);
                    if (person != null) {
                        person.offended = true;
                    }
                }
                default -> done = System.nanoTime();
            }
        }

        private long deadline(long now) {
            if (exact) {
                return now + HORIZON;
            }
            // The clock of a person starts with the first check after the screening.
            long since = now - start;
            long first = Math.max(since / DAY + (since % DAY > 0 ? 1 : 0), 1);
            return start + (first - 1) * DAY + HORIZON;
        }

        private void run(long until, Collector<Alarm> out) {
            for (; memory.next <= until; memory.next += DAY) {
                judge(memory.next);
                check(memory.next, out);
            }
            judge(until);
        }

        /** Counts the people whose deadline is over. */
        private void judge(long now) {
            while (!memory.deadlines.isEmpty() && memory.deadlines.peek()[0] <= now) {
                Defendant person = memory.people.remove(memory.deadlines.poll()[1]);
                if (person != null) {
                    Scores scores = memory.groups.get(person.group);
                    int outcome = person.offended ? 0 : 1;
                    scores.high[outcome] += person.high ? 1 : 0;
                    scores.total[outcome]++;
                }
            }
        }

        private void check(long now, Collector<Alarm> out) {
            for (int outcome = 0; outcome < 2; outcome++) {
                double least = Double.POSITIVE_INFINITY;
                double most = Double.NEGATIVE_INFINITY;
                for (Scores scores : memory.groups.values()) {
                    double rate = (double) scores.high[outcome] / scores.total[outcome];
                    least = Math.min(least, rate);
                    most = Math.max(most, rate);
                }
                if (most - least > 0.1) {
                    out.collect(new Alarm(now, outcome, null));
                }
            }
        }
    }
}
