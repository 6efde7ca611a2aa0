package config

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/pipeline/codec"
)

// Registry says where the schemas of topics in Avro and Protobuf are kept.
type Registry struct {
	URL      string `yaml:"url"` // of a registry elsewhere; none: the one built in, at /registry of http.listen
	User     string `yaml:"user"`
	Password string `yaml:"password"`
	Token    string `yaml:"token"` // in place of user and password
}

// Validate checks the address and the login.
func (r *Registry) Validate() error {
	if r.URL == "" {
		if r.User != "" || r.Password != "" || r.Token != "" {
			return errors.New("url is missing: user, password and token are for a registry elsewhere")
		}
		return nil
	}
	u, err := url.Parse(r.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return errors.New("url is not one such as http://registry:8081, with the login in user and password")
	}
	if r.Token != "" && r.User != "" {
		return errors.New("token stands in place of user and password")
	}
	return nil
}

// encodings says how the topics of a source are written.
type encodings struct {
	Encoding  codec.Encoding            `yaml:"encoding"`  // of every topic
	Encodings map[string]codec.Encoding `yaml:"encodings"` // of topics by name or glob
}

func (k *encodings) validate(envelope codec.Envelope) error {
	var errs []error
	check := func(key string, e codec.Encoding) {
		switch e {
		case codec.EncodingJSON:
		case codec.EncodingAvro, codec.EncodingProtobuf:
			if envelope != codec.Lossless {
				errs = append(errs, fmt.Errorf("%s has avro or protobuf, which are for the default envelope", key))
			}
		default:
			errs = append(errs, fmt.Errorf("%s is not one of json, avro, protobuf", key))
		}
	}
	check("encoding", k.Encoding)
	for topic, e := range k.Encodings {
		check(fmt.Sprintf("encodings of %s", topic), e)
	}
	return errors.Join(errs...)
}

// of returns the encoding of a topic. Of several globs that fit, the longest counts.
func (k encodings) of(topic string) codec.Encoding {
	best, e := -1, k.Encoding
	for pattern, other := range k.Encodings {
		if pattern == topic {
			return other
		}
		if connectors.MatchName(pattern, topic) && (len(pattern) > best || len(pattern) == best && other < e) {
			best, e = len(pattern), other
		}
	}
	return e
}
