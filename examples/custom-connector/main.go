// Program custom-connector is Trunkline with one connector more: a source that counts. A connector is a value of
// functions, and a program is a list of connectors.
package main

import (
	"os"

	"github.com/trunkline/trunkline/cmd/trunkline/command"
	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/file"
	"github.com/trunkline/trunkline/connectors/stdout"
)

func main() {
	os.Exit(command.Main(command.Options{Connectors: []connectors.Connector{counter(), file.Connector(), stdout.Connector()}}))
}
