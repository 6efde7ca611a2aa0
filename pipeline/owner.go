package pipeline

import (
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/trunkline/trunkline/pipeline/config"
)

// ownership knows which source writes a topic: by the template of its names if that begins with something fixed, and by
// what the source has written since it was started.
type ownership struct {
	templates []ownedNames

	mu      sync.Mutex
	topics  map[string]string
	refresh time.Time
}

// ownedNames are the names that one source's template can give.
type ownedNames struct {
	source string
	names  *regexp.Regexp
}

// ownerRefresh is how old the list of topics that sources have written may be.
const ownerRefresh = time.Second

var placeholder = regexp.MustCompile(`\{[a-z]+\}`)

func newOwnership(sources []*source) *ownership {
	o := &ownership{}
	for _, s := range sources {
		if names := TopicNames(s.config); names != nil {
			o.templates = append(o.templates, ownedNames{source: s.name, names: names})
		}
	}
	return o
}

// TopicNames matches the names that the template of a source's topics can give; nil if that begins with nothing fixed.
func TopicNames(s config.Source) *regexp.Regexp {
	template := strings.ReplaceAll(s.Topic, "{source}", s.Name)
	if template == "" || strings.HasPrefix(template, "{") {
		return nil
	}
	parts := placeholder.Split(template, -1)
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$")
}

// Owner returns the source that writes a topic, "" if none does.
func (p *Pipeline) Owner(topic string) string {
	r := p.roster()
	for _, t := range r.owned.templates {
		if t.names.MatchString(topic) {
			return t.source
		}
	}
	o := r.owned
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := time.Now(); now.Sub(o.refresh) > ownerRefresh {
		o.refresh, o.topics = now, map[string]string{}
		for _, s := range r.sources {
			for _, t := range s.ingest.Status().Tables {
				if t.Topic != "" {
					o.topics[t.Topic] = s.name
				}
			}
		}
	}
	return o.topics[topic]
}
