package pipeline

import (
	"testing"

	"github.com/trunkline/trunkline/pipeline/config"
)

func TestTopicsBelongToTheSourceWhoseTemplateNamesThem(t *testing.T) {
	t.Parallel()
	var sources []*source
	for name, template := range map[string]string{"shop": "{source}.{schema}.{table}", "bill.ing": "all-{source}-x", "loose": "{schema}.{table}"} {
		sources = append(sources, &source{member: &member{name: name}, config: config.Source{Name: name, Topic: template}})
	}
	o := newOwnership(sources)
	owner := func(topic string) string {
		for _, t := range o.templates {
			if t.names.MatchString(topic) {
				return t.source
			}
		}
		return ""
	}
	for topic, want := range map[string]string{"shop.public.orders": "shop", "shopping.public.orders": "", "all-bill.ing-x": "bill.ing",
		"all-billxing-x": "", "public.orders": "", "shop": ""} {
		if got := owner(topic); got != want {
			t.Errorf("%s belongs to %q, want %q", topic, got, want)
		}
	}
}
