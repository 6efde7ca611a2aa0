package config_test

import (
	"strings"
	"testing"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/memory"
	"github.com/trunkline/trunkline/pipeline/config"
)

// TestShownSettingsHideSecrets puts a password wherever one may stand. The settings are not those of the connector, so
// Parse reports them, but what is shown is there all the same.
func TestShownSettingsHideSecrets(t *testing.T) {
	const secret = `pa ss/:@'w"örd`
	text := `
sources:
  shop:
    type: memory
    dsn: postgres://cdc:${SHOP_PW}@db:5432/shop
    url: "postgres://cdc:pa ss/:@'w\"örd@db/shop"
    plain: "root:pa ss/:@'w\"örd@tcp(db)/shop"
    words: "host=db password='pa ss w örd' user=cdc"
    password: "pa ss/:@'w\"örd"
    whole: ${SHOP_PW}
    fallback: ${NONE:-pa ss w örd}
    headers: {Authorization: "Bearer pa ss w örd"}
    access_key: {id: "pa ss w örd"}
    tables: [{name: orders, key: [id], cursor: at}]
`
	registry, err := connectors.NewRegistry(memory.NewSpace().Connector())
	if err != nil {
		t.Fatal(err)
	}
	lookup := func(name string) (string, bool) { return secret, name == "SHOP_PW" }
	c, _ := config.Parse("p.yaml", []byte(text), registry, lookup)
	if len(c.Sources) != 1 {
		t.Fatalf("%d sources", len(c.Sources))
	}
	got := c.Sources[0].Shown
	if strings.Contains(got, "örd") || strings.Contains(got, "pa ss") {
		t.Errorf("a password shows:\n%s", got)
	}
	for _, want := range []string{"postgres://cdc:…@db:5432/shop", "whole: ${SHOP_PW}", "host=db", "key: [id]", "cursor: at", "Authorization"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in\n%s", want, got)
		}
	}
}
