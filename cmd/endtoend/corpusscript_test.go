package endtoend

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sqlClient is a server's own client, which understands its commands in a script.
type sqlClient struct {
	path string
	args []string
}

// feed runs a script. After each statement it calls after, if there is one; the client waits meanwhile. Both clients have \!
// for a command of the shell.
func (c *sqlClient) feed(t *testing.T, script []byte, after func(statement []byte)) {
	t.Helper()
	cmd := exec.Command(c.path, c.args...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	fault := func(err error) {
		if err != nil {
			t.Errorf("%s: %v: %s", c.path, err, lastPart(complaints.Bytes(), 3000))
		}
	}
	if after == nil {
		cmd.Stdin = bytes.NewReader(script)
		fault(cmd.Run())
		return
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	for i, statement := range statementsOf(script) {
		mark := fmt.Sprintf("statement %d is done", i)
		if _, err := in.Write(slices.Concat(statement, []byte(`\! echo `+mark+"\n"))); err != nil {
			break // the client has ended, and says why
		}
		for err == nil {
			var line string
			if line, err = lines.ReadString('\n'); strings.TrimSpace(line) == mark {
				break
			}
		}
		if err != nil {
			break
		}
		after(statement)
	}
	in.Close()
	io.Copy(io.Discard, lines)
	fault(cmd.Wait())
}

// What has to go to the client as one piece: the data of COPY, bodies of functions, what depends on a condition.
var (
	copyLine  = regexp.MustCompile(`^COPY .*(?i:from stdin).*;$`)
	everyLine = regexp.MustCompile(`(?m)^(SELECT format\(.*) \\gexec$`)
)

// manyTables is more than the tables that the script makes statements for.
const manyTables = 120

// statementsOf cuts a script behind its statements. What makes a statement for each table is a piece for each of them.
func statementsOf(script []byte) [][]byte {
	script = everyLine.ReplaceAllFunc(script, func(line []byte) []byte {
		var out []byte
		for i := range manyTables {
			out = fmt.Appendf(out, "%s LIMIT 1 OFFSET %d \\gexec\n", bytes.TrimSuffix(line, []byte(` \gexec`)), i)
		}
		return out
	})
	var pieces [][]byte
	var piece []byte
	quoted, copying, delimited, conditions := false, false, false, 0
	for line := range bytes.Lines(script) {
		piece = append(piece, line...)
		text := bytes.TrimSpace(line)
		if bytes.Count(text, []byte("$$"))%2 == 1 {
			quoted = !quoted
		}
		switch {
		case copyLine.Match(text):
			copying = true
		case bytes.Equal(text, []byte(`\.`)):
			copying = false
		case bytes.HasPrefix(text, []byte(`\if`)):
			conditions++
		case bytes.HasPrefix(text, []byte(`\endif`)):
			conditions--
		case bytes.HasPrefix(text, []byte("DELIMITER ")):
			delimited = !bytes.Equal(text, []byte("DELIMITER ;"))
		}
		ends := bytes.HasSuffix(text, []byte(";")) && !bytes.HasPrefix(text, []byte("--")) || bytes.HasSuffix(text, []byte(`\gexec`)) || bytes.Equal(text, []byte(`\.`))
		if ends && !quoted && !copying && !delimited && conditions == 0 {
			pieces, piece = append(pieces, piece), nil
		}
	}
	return append(pieces, append(piece, '\n'))
}
