package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/trunkline/trunkline/pipeline/api"
)

// maxInput is the longest line that produce takes from stdin.
const maxInput = 64 << 20

func (a *app) produceCommand() *cobra.Command {
	var separator, format string
	var partition int32
	c := &cobra.Command{
		Use: "produce TOPIC", Short: "Append the lines of stdin to a topic", Args: cobra.ExactArgs(1),
		Long: `Append the lines of stdin to a topic, one record each. With --key-separator the
text before its first occurrence is the key, and decides the partition as Kafka's
clients do; without, records go to the partitions in turn. --format json takes the
lines that consume --format json prints: with headers, tombstones (a value that is
null) and bytes that are no text.`,
		Example: `  echo '{"id":1}|{"id":1,"total":"9.90"}' | trunkline produce orders --key-separator '|'`,
		RunE: func(c *cobra.Command, args []string) error {
			keyed := c.Flags().Changed("key-separator")
			switch {
			case format != "value" && format != "json":
				return usagef("--format %q is not one of value, json", format)
			case keyed && (separator == "" || format == "json"):
				return usagef("--key-separator is empty, or does not go with --format json")
			}
			return a.withClient(c, func(ctx context.Context, client *api.Client) error {
				lines := lineReader{in: bufio.NewReaderSize(a.in, 64<<10), separator: separator, keyed: keyed, asJSON: format == "json"}
				if partition >= 0 {
					lines.partition = &partition
				}
				n, err := produce(ctx, client, args[0], &lines)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(api.Produced{Records: n})
				}
				fmt.Fprintf(a.problems, "appended %s records to %s\n", count(n), args[0])
				return nil
			})
		},
	}
	c.Flags().StringVar(&separator, "key-separator", "", "`text` that ends the key of each line")
	c.Flags().StringVar(&format, "format", "value", "what the lines are: `value|json`")
	c.Flags().Int32Var(&partition, "partition", -1, "append to this partition `number`")
	word(c, "format", oneOf("value", "json"))
	return words(a.facts(c), a.topicNames)
}

// produce sends every line and returns the number of records. The lines are read on a goroutine of their own, which
// has ended when it returns, unless stdin gives neither a line nor an end.
func produce(ctx context.Context, client *api.Client, topic string, lines *lineReader) (int64, error) {
	reader, writer := io.Pipe()
	read := make(chan error, 1)
	go func() {
		err := lines.copyTo(writer)
		read <- err // before the server hears of it, so that its answer never hides the reason
		writer.CloseWithError(err)
	}()
	answer, err := client.Stream(ctx, "POST", api.Path("api", "topics", topic, "records"), nil, reader)
	reader.Close()
	if err != nil {
		select {
		case readErr := <-read:
			if readErr != nil && !errors.Is(readErr, io.ErrClosedPipe) {
				return 0, readErr
			}
		default:
		}
		return 0, err
	}
	defer answer.Close()
	var produced api.Produced
	if err := json.NewDecoder(answer).Decode(&produced); err != nil {
		return 0, fmt.Errorf("decode answer: %w", err)
	}
	return produced.Records, nil
}

// lineReader turns lines of stdin into lines of the API.
type lineReader struct {
	in        *bufio.Reader
	separator string
	keyed     bool
	asJSON    bool
	partition *int32
}

// copyTo sends what has arrived as soon as no more is waiting: many lines of a file at once, and each line of a person.
func (l *lineReader) copyTo(w io.Writer) error {
	out := bufio.NewWriterSize(w, 64<<10)
	return errors.Join(l.encodeTo(out), out.Flush())
}

func (l *lineReader) encodeTo(out *bufio.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for number := 1; ; number++ {
		line, err := l.line(number)
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		record, problem := l.record(bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), number)
		if problem != nil {
			return problem
		}
		if problem := encoder.Encode(record); problem != nil {
			return problem
		}
		if err != nil {
			return nil
		}
		if l.in.Buffered() == 0 {
			if problem := out.Flush(); problem != nil {
				return problem
			}
		}
	}
}

func (l *lineReader) line(number int) ([]byte, error) {
	var line []byte
	for {
		part, err := l.in.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxInput {
			return nil, fmt.Errorf("line %d of stdin is longer than 64 MiB", number)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// partly is what a person has to know after a line that is refused.
const partly = "the lines before it may be in the topic"

func (l *lineReader) record(line []byte, number int) (api.Record, error) {
	if l.asJSON {
		var r api.Record
		if err := json.Unmarshal(line, &r); err != nil {
			return r, usagef("line %d of stdin is no record in JSON: %w; %s", number, err, partly)
		}
		r.Topic, r.Offset, r.Partition = "", nil, l.partition
		return r, nil
	}
	var key []byte
	if l.keyed {
		before, after, found := bytes.Cut(line, []byte(l.separator))
		if !found {
			return api.Record{}, usagef("line %d of stdin has no key separator; %s", number, partly)
		}
		key, line = before, after
		if key == nil {
			key = []byte{}
		}
	}
	return api.ProduceRecord(key, line, l.partition), nil
}

func (a *app) consumeCommand() *cobra.Command {
	q := url.Values{}
	var from, group, format string
	var limit, at int64
	var partition int32
	var follow bool
	c := &cobra.Command{
		Use: "consume TOPIC", Short: "Print the records of a topic", Args: cobra.ExactArgs(1),
		Long: `Print the records of a topic, and end where the topic ended at the start, or with
--follow never. --format value prints the value alone, a tombstone as an empty line;
--format json prints key, value, headers and offset, and text that is not UTF-8 as
base64 in key_base64 and value_base64.`,
		RunE: func(c *cobra.Command, args []string) error {
			if format != "value" && format != "json" {
				return usagef("--format %q is not one of value, json", format)
			}
			set := func(flag, value string) {
				if c.Flags().Changed(flag) {
					q.Set(flag, value)
				}
			}
			set("from", from)
			set("group", group)
			set("max", strconv.FormatInt(limit, 10))
			set("offset", strconv.FormatInt(at, 10))
			set("partition", strconv.FormatInt(int64(partition), 10))
			set("follow", strconv.FormatBool(follow))
			return a.withClient(c, func(ctx context.Context, client *api.Client) error {
				return a.consume(ctx, client, args[0], q, format == "json")
			})
		},
	}
	c.Flags().StringVar(&from, "from", "earliest", "where to begin, in a group only where it has committed nothing: `earliest|latest|TIME`")
	c.Flags().StringVar(&group, "group", "", "read as a member of this consumer `group`, and commit what was printed")
	c.Flags().Int64Var(&limit, "max", 0, "end after this `number` of records")
	c.Flags().Int64Var(&at, "offset", 0, "begin at this `offset`; needs --partition")
	c.Flags().Int32Var(&partition, "partition", 0, "only this partition `number`")
	c.Flags().BoolVar(&follow, "follow", false, "wait for more records at the end")
	c.Flags().StringVar(&format, "format", "value", "what to print: `value|json`")
	word(c, "format", oneOf("value", "json"))
	word(c, "group", a.groupNames)
	word(c, "from", oneOf("earliest", "latest"))
	return words(a.remote(c), a.topicNames)
}

func (a *app) consume(ctx context.Context, client *api.Client, topic string, q url.Values, asJSON bool) error {
	answer, err := client.Stream(ctx, "GET", api.Path("api", "topics", topic, "records"), q, nil)
	if err != nil {
		return err
	}
	defer answer.Close()
	out := bufio.NewWriterSize(a.out, 64<<10)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	follow := q.Get("follow") == "true"
	err = api.Records(answer, func(r api.Record) error {
		var err error
		if asJSON {
			err = encoder.Encode(r)
		} else {
			_, err = out.Write(append(r.ValueBytes(), '\n'))
		}
		if follow && err == nil {
			err = out.Flush()
		}
		return err
	})
	return errors.Join(err, out.Flush())
}
