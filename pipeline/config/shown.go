package config

import (
	"bytes"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// hidden stands where a secret is.
const hidden = "…"

// secretKey is how a setting is called whose value nobody should see. A key that is a list of columns is none, so key
// itself counts only before a text.
var secretKey = regexp.MustCompile(`(?i)pass|pw$|secret|token|salt|cred|auth|private|cookie|sasl|headers|(access|api|account|sign|signing|hmac|encryption)_?key`)

// secretParameter finds the value of such a parameter in a URL or in a list of words.
var secretParameter = regexp.MustCompile(`(?i)((?:pass|pw|secret|token|key|cred|auth|sig)[a-z_-]*\s*=\s*)('[^']*'|"[^"]*"|[^&\s;,]+)`)

// account finds user:password@ where an address may begin, up to the last @, whatever the password holds.
var account = regexp.MustCompile(`(?s)^((?:[A-Za-z0-9+.-]+://)?[^:/@\s]*):.*@`)

// whole is a text that is one reference and nothing else, which tells nothing.
var whole = regexp.MustCompile(`^\$\{[A-Za-z_][A-Za-z0-9_]*\}$|^\$\{file:[^}]*\}$`)

// shown returns what stands below a name as it stands in the file, with references in place of what they insert, and
// without secrets, comments and defaults of references. It is for looking at.
func (d *decoder) shown(n *yaml.Node) string {
	nodes := 0
	masked := d.masked(n, "", 0, &nodes)
	if masked == nil {
		return ""
	}
	masked.Style &^= yaml.FlowStyle // a line for each setting
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if e.Encode(masked) != nil || e.Close() != nil {
		return ""
	}
	return out.String()
}

// masked copies a node. Aliases are written out.
func (d *decoder) masked(n *yaml.Node, key string, depth int, nodes *int) *yaml.Node {
	if *nodes++; depth > maxDepth || *nodes > maxNodes {
		return nil
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	out := &yaml.Node{Kind: n.Kind, Tag: n.Tag, Style: n.Style, Value: n.Value}
	if written, inserted := d.written[n]; inserted {
		out.Value = written
	}
	if n.Kind == yaml.ScalarNode {
		text := out.Value
		if out.Value = maskText(text, secretKey.MatchString(key) || key == "key"); out.Value != text {
			out.Style = yaml.DoubleQuotedStyle
		}
		return out
	}
	inherited := ""
	if secretKey.MatchString(key) {
		inherited = key
	}
	for i, c := range n.Content {
		below := inherited
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			out.Content = append(out.Content, &yaml.Node{Kind: c.Kind, Tag: c.Tag, Style: c.Style, Value: c.Value})
			continue
		}
		if n.Kind == yaml.MappingNode && inherited == "" {
			below = n.Content[i-1].Value
		}
		copied := d.masked(c, below, depth+1, nodes)
		if copied == nil {
			return nil
		}
		out.Content = append(out.Content, copied)
	}
	return out
}

// reference is one inserted value with the default beside it, which may be as secret as the value.
var reference = regexp.MustCompile(`\$\{([^}:]*):-[^}]*\}`)

func maskText(text string, secret bool) string {
	if whole.MatchString(text) {
		return text
	}
	if secret && text != "" {
		return hidden
	}
	text = reference.ReplaceAllString(text, "$${$1:-"+hidden+"}")
	text = account.ReplaceAllString(text, "$1:"+hidden+"@")
	text = userinfo.ReplaceAllString(text, "$1:"+hidden+"@")
	if strings.Contains(text, "=") {
		text = secretParameter.ReplaceAllString(text, "${1}"+hidden)
	}
	return text
}
