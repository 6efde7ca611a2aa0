package memory

// SourceConfig is the settings of a source of type memory.
type SourceConfig struct {
	Feed string `yaml:"feed"` // which feed of the space; default: the name of the source
}

// SinkConfig is the settings of a sink of type memory.
type SinkConfig struct {
	Store string `yaml:"store"` // which store of the space; default: the name of the sink
	Plain bool   `yaml:"plain"` // do not keep positions: the sink is at least once
}
