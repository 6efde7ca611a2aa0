// Program trunkline moves data from databases into derived stores, through one partitioned log. This file holds the list
// of its connectors; a program with one more is this file with one more line. Package command has the command line.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/trunkline/trunkline/cmd/trunkline/bench"
	"github.com/trunkline/trunkline/cmd/trunkline/command"
	"github.com/trunkline/trunkline/cmd/trunkline/demo"
	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/clickhouse"
	"github.com/trunkline/trunkline/connectors/duckdb"
	"github.com/trunkline/trunkline/connectors/elasticsearch"
	"github.com/trunkline/trunkline/connectors/exec"
	"github.com/trunkline/trunkline/connectors/file"
	"github.com/trunkline/trunkline/connectors/http"
	"github.com/trunkline/trunkline/connectors/kafka"
	"github.com/trunkline/trunkline/connectors/memory"
	"github.com/trunkline/trunkline/connectors/mysql"
	"github.com/trunkline/trunkline/connectors/postgres"
	"github.com/trunkline/trunkline/connectors/redis"
	"github.com/trunkline/trunkline/connectors/s3"
	"github.com/trunkline/trunkline/connectors/sqlite"
	"github.com/trunkline/trunkline/connectors/stdout"
)

func main() {
	os.Exit(command.Main(command.Options{
		Connectors: []connectors.Connector{
			clickhouse.Connector(),
			duckdb.Connector(),
			elasticsearch.Connector(),
			exec.Connector(),
			file.Connector(),
			http.Connector(),
			kafka.Connector(),
			memory.Connector(),
			mysql.Connector(),
			postgres.Connector(),
			redis.Connector(),
			s3.Connector(),
			sqlite.Connector(),
			stdout.Connector(),
		},
		Commands: []*cobra.Command{bench.Command(), demo.Command()},
	}))
}
