package trace

import "go.opentelemetry.io/otel/attribute"

// What spans say, under the names of OpenTelemetry's semantic conventions where these have one
// (https://opentelemetry.io/docs/specs/semconv/, messaging and database).
const (
	Database  = attribute.Key("db.system.name")          // of the system behind a connector
	Operation = attribute.Key("db.operation.name")       //
	BatchRows = attribute.Key("db.operation.batch.size") // rows in one write

	Messaging  = attribute.Key("messaging.system")
	Act        = attribute.Key("messaging.operation.name")
	ActType    = attribute.Key("messaging.operation.type") // send, receive, process, settle
	Topic      = attribute.Key("messaging.destination.name")
	Partition  = attribute.Key("messaging.destination.partition.id")
	Group      = attribute.Key("messaging.consumer.group.name")
	Messages   = attribute.Key("messaging.batch.message_count")
	Offset     = attribute.Key("messaging.kafka.offset")
	Source     = attribute.Key("trunkline.source")
	Sink       = attribute.Key("trunkline.sink")
	Connector  = attribute.Key("trunkline.connector")       // its type
	Table      = attribute.Key("trunkline.table")           // schema.table
	Rows       = attribute.Key("trunkline.rows")            // changes
	Bytes      = attribute.Key("trunkline.bytes")           // of keys and values, before compression
	Batches    = attribute.Key("trunkline.batches")         // that a source handed over and that are committed as one
	Topics     = attribute.Key("trunkline.topics")          // how many
	AgeSeconds = attribute.Key("trunkline.age_seconds")     // from the newest commit in the source to the end of the span
	WithRows   = attribute.Key("trunkline.offsets_in_sink") // the sink keeps its position, in the transaction of its rows
	Keys       = attribute.Key("trunkline.keys")            // that were sent again
	Arrived    = attribute.Key("trunkline.keys_arrived")    // of these, equal again
)

// LogSystem is the messaging system of every span about the log: its records, offsets and groups are Kafka's in both of
// its forms.
const LogSystem = "kafka"

// systems are the names of OpenTelemetry for what connectors talk to.
var systems = map[string]string{
	"postgres": "postgresql", "mysql": "mysql", "sqlite": "sqlite", "clickhouse": "clickhouse", "redis": "redis",
	"elasticsearch": "elasticsearch", "duckdb": "duckdb",
}

// System says what a connector of a type talks to: a database where it is one.
func System(connector string) []attribute.KeyValue {
	out := []attribute.KeyValue{Connector.String(connector)}
	if name, ok := systems[connector]; ok {
		out = append(out, Database.String(name))
	}
	return out
}
