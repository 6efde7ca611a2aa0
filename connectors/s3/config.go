package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/trunkline/trunkline/connectors"
	"github.com/trunkline/trunkline/connectors/rowfile"
)

// Config is the settings of a sink of type s3.
type Config struct {
	rowfile.Settings `yaml:",inline"`

	Endpoint  string `yaml:"endpoint"`   // https://s3.eu-central-1.amazonaws.com, http://minio:9000; https://s3.amazonaws.com
	Region    string `yaml:"region"`     // asked of the store
	Bucket    string `yaml:"bucket"`     // has to be there
	Prefix    string `yaml:"prefix"`     // before the names of objects; none
	AccessKey string `yaml:"access_key"` // with secret_key; AWS's own variables, its file, then the role of the machine
	SecretKey string `yaml:"secret_key"`
}

// Connector returns the type s3. It has no source.
func Connector() connectors.Connector {
	return connectors.NewSink("s3", decodeSink, open, check)
}

func decodeSink(decode connectors.Decode) (*Config, error) {
	c := &Config{}
	return c, decode(c)
}

// Validate checks the settings and fills in the defaults.
func (c *Config) Validate() error {
	errs := []error{c.Settings.Validate()}
	if c.Endpoint == "" {
		c.Endpoint = "https://s3.amazonaws.com"
	}
	if u, err := url.Parse(c.Endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.User != nil {
		errs = append(errs, errors.New("endpoint is not https://host or http://host:port"))
	}
	if c.Bucket == "" {
		errs = append(errs, errors.New("bucket is missing"))
	}
	if strings.HasPrefix(c.Prefix, "/") {
		errs = append(errs, errors.New("prefix must not begin with a slash"))
	}
	if c.Prefix != "" && !strings.HasSuffix(c.Prefix, "/") {
		c.Prefix += "/"
	}
	if (c.AccessKey == "") != (c.SecretKey == "") {
		errs = append(errs, errors.New("access_key needs secret_key, and the other way round"))
	}
	return errors.Join(errs...)
}

// connect makes a client. It sends nothing.
func connect(c *Config) (*minio.Client, *http.Transport, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil {
		return nil, nil, errors.New("connect: endpoint is not https://host or http://host:port")
	}
	secure := u.Scheme == "https"
	transport, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to %s: %w", u.Host, err)
	}
	keys := credentials.NewStaticV4(c.AccessKey, c.SecretKey, "")
	if c.AccessKey == "" {
		keys = credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{},
		})
	}
	client, err := minio.New(u.Host, &minio.Options{Creds: keys, Secure: secure, Region: c.Region, Transport: transport, MaxRetries: 1})
	if err != nil {
		return nil, nil, fmt.Errorf("connect to %s: %w", u.Host, err)
	}
	return client, transport, nil
}

// check looks whether the bucket is there and can be listed.
func check(ctx context.Context, c *Config, _ connectors.Env) ([]connectors.Finding, error) {
	client, transport, err := connect(c)
	if err != nil {
		return nil, err
	}
	defer transport.CloseIdleConnections()
	found, err := client.BucketExists(ctx, c.Bucket)
	if err != nil {
		return nil, fmt.Errorf("look at bucket %s: %w", c.Bucket, err)
	}
	if !found {
		return []connectors.Finding{{Severity: connectors.Fatal, Subject: c.Bucket, Problem: "the bucket does not exist", Remedy: "make it, or correct bucket"}}, nil
	}
	return nil, nil
}
