package config

import (
	"cmp"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// minSecret is the shortest inserted value that is looked for in text. Shorter ones are part of ordinary words.
const minSecret = 4

// Secrets knows the inserted values that may be secret, and takes them out of text that people will see. The zero
// value still hides passwords in URLs.
type Secrets struct {
	replacer *strings.Replacer
}

// secretName is how a reference to something secret is likely to be called.
var secretName = regexp.MustCompile(`(?i)pass|pw|secret|token|key|cred|auth|dsn|url|pin|file:`)

// userinfo finds user:password@ in a URL, up to the last @ before the path.
var userinfo = regexp.MustCompile(`(://[^\s:/@]*):[^\s/]*@`)

func newSecrets(values map[string]string) Secrets {
	// Longest first, so that a value that contains another is replaced whole.
	ordered := slices.SortedFunc(maps.Keys(values), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	var pairs []string
	for _, v := range ordered {
		if len(v) < minSecret || !secretName.MatchString(values[v]) {
			continue
		}
		pairs = append(pairs, v, values[v])
		if escaped := url.QueryEscape(v); escaped != v {
			pairs = append(pairs, escaped, values[v])
		}
	}
	if pairs == nil {
		return Secrets{}
	}
	return Secrets{replacer: strings.NewReplacer(pairs...)}
}

// Hide returns the text without inserted secrets and without passwords in URLs.
func (s Secrets) Hide(text string) string {
	if s.replacer != nil {
		text = s.replacer.Replace(text)
	}
	return userinfo.ReplaceAllString(text, "$1:…@")
}
