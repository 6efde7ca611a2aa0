package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// maxInsertedFile bounds what ${file:…} reads.
const maxInsertedFile = 1 << 20

// variableName is what POSIX allows for a variable.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// inserter replaces references in the scalars of a parsed file. It works on values after YAML has been parsed, so an
// inserted value is data whatever characters it holds, and is not looked at again.
type inserter struct {
	lookup func(name string) (string, bool)
	values map[string]string // inserted value -> the reference that named it, to keep values out of messages
}

// expand returns the text with every reference replaced. All problems of the text are joined.
func (in *inserter) expand(text string) (string, error) {
	var out strings.Builder
	var errs []error
	for {
		i := strings.IndexByte(text, '$')
		if i < 0 || i == len(text)-1 {
			out.WriteString(text)
			return out.String(), errors.Join(errs...)
		}
		out.WriteString(text[:i])
		switch text[i+1] {
		case '$':
			out.WriteByte('$')
			text = text[i+2:]
		case '{':
			end := strings.IndexByte(text[i:], '}')
			if end < 0 {
				return "", errors.Join(append(errs, errors.New("a ${ without its }; a literal ${ is written $${"))...)
			}
			reference := text[i : i+end+1]
			value, err := in.resolve(reference[2 : len(reference)-1])
			if err != nil {
				errs = append(errs, err)
			} else if value != "" {
				in.values[value] = reference
			}
			out.WriteString(value)
			text = text[i+end+1:]
		default:
			out.WriteByte('$')
			text = text[i+1:]
		}
	}
}

// resolve returns the value of NAME, NAME:-default or file:/path.
func (in *inserter) resolve(reference string) (string, error) {
	if path, ok := strings.CutPrefix(reference, "file:"); ok {
		return readInserted(path)
	}
	name, fallback, hasFallback := strings.Cut(reference, ":-")
	if !variableName.MatchString(name) {
		return "", fmt.Errorf("${%s} is none of ${NAME}, ${NAME:-default}, ${file:/path}; a literal ${ is written $${", reference)
	}
	value, ok := in.lookup(name)
	switch {
	case ok && (value != "" || !hasFallback):
		return value, nil
	case hasFallback:
		return fallback, nil
	default:
		return "", fmt.Errorf("environment variable %s is not set", name)
	}
}

func readInserted(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read ${file:…}: %w", err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxInsertedFile+1))
	if err != nil {
		return "", fmt.Errorf("read ${file:…}: %w", err)
	}
	if len(content) > maxInsertedFile {
		return "", fmt.Errorf("read ${file:…}: %s is larger than 1 MiB", path)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r"), nil
}

// insert expands every scalar value below n, and remembers how those that changed were written.
func (d *decoder) insert(n *yaml.Node, path string) {
	switch n.Kind {
	case yaml.ScalarNode:
		value, err := d.in.expand(n.Value)
		for _, problem := range split(err) {
			d.fail(n.Line, path, problem.Error())
		}
		if value != n.Value {
			d.written[n] = n.Value
			n.Value = value
		}
		if err != nil {
			d.broken[n] = true
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			d.insert(n.Content[i+1], join(path, n.Content[i].Value))
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			d.insert(item, fmt.Sprintf("%s[%d]", path, i))
		}
	case yaml.DocumentNode:
		for _, item := range n.Content {
			d.insert(item, path)
		}
	}
}

// split returns the parts of a joined error.
func split(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}
