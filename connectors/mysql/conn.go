package mysql

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-mysql-org/go-mysql/client"
	wire "github.com/go-mysql-org/go-mysql/mysql"
	driver "github.com/go-sql-driver/mysql"
)

const (
	connectTimeout = 15 * time.Second
	keepAliveIdle  = 15 * time.Second // of TCP, so that a dead peer ends a statement that waits
	keepAliveEvery = 5 * time.Second
	keepAliveCount = 4
	defaultPort    = 3306
)

// tlsModes are the same for every connection of a connector.
var tlsModes = []string{"disable", "require", "verify-ca", "verify-full"}

// address is where a server is and how to log in, as configured.
type address struct {
	dsn, host                string
	port                     int
	user, password, database string
	tls, rootCert, cert, key string
}

// endpoint is an address understood.
type endpoint struct {
	network, addr            string
	user, password, database string
	tls                      *tls.Config
}

// endpoint reads the settings. Errors never hold the DSN, which may hold a password.
func (a address) endpoint() (*endpoint, error) {
	if a.dsn != "" && a.host != "" {
		return nil, errors.New("dsn and host exclude each other")
	}
	e := &endpoint{network: "tcp", user: a.user, password: a.password, database: a.database}
	host, port := a.host, a.port
	switch {
	case strings.Contains(a.dsn, "://"):
		u, err := url.Parse(a.dsn)
		if err != nil || u.Scheme != "mysql" && u.Scheme != "mariadb" {
			return nil, errors.New("dsn is no valid connection URL like mysql://user:password@host:3306/database; special characters in its password must be percent-encoded, or use host, user and password instead")
		}
		host, e.user, e.database = u.Hostname(), u.User.Username(), strings.TrimPrefix(u.Path, "/")
		e.password, _ = u.User.Password()
		if text := u.Port(); text != "" {
			if port, err = strconv.Atoi(text); err != nil {
				return nil, errors.New("dsn has a port that is no number")
			}
		}
		if err := a.take(u.Query(), &host); err != nil {
			return nil, err
		}
	case a.dsn != "":
		c, err := driver.ParseDSN(a.dsn)
		if err != nil {
			return nil, errors.New("dsn is no valid connection string; it looks like mysql://user:password@host:3306/database")
		}
		e.network, e.addr, e.user, e.password, e.database = c.Net, c.Addr, c.User, c.Passwd, c.DBName
		host, _, _ = net.SplitHostPort(c.Addr)
	}
	if port == 0 {
		port = defaultPort
	}
	if port < 1 || port > 65535 {
		return nil, fmt.Errorf("port is %d; it can be 1 to 65535", port)
	}
	if strings.HasPrefix(host, "/") {
		e.network, e.addr = "unix", host
	}
	if e.addr == "" {
		if host == "" {
			host = "127.0.0.1"
		}
		e.addr = net.JoinHostPort(host, strconv.Itoa(port))
	}
	var err error
	e.tls, err = a.tlsConfig(host)
	return e, err
}

// take reads the parameters of a connection URL.
func (a *address) take(query url.Values, host *string) error {
	targets := map[string]*string{"socket": host, "tls": &a.tls, "sslmode": &a.tls, "sslrootcert": &a.rootCert, "sslcert": &a.cert, "sslkey": &a.key}
	for name, values := range query {
		target := targets[name]
		if target == nil {
			return fmt.Errorf("dsn has the parameter %q, which is not known; there are socket, tls, sslrootcert, sslcert and sslkey", name)
		}
		if *target == "" || name == "socket" {
			*target = values[0]
		}
	}
	return nil
}

// tlsConfig returns nil for plain text.
func (a *address) tlsConfig(host string) (*tls.Config, error) {
	mode := a.tls
	if mode == "" {
		mode = "disable"
	}
	if err := choice("tls", mode, tlsModes...); err != nil || mode == "disable" {
		return nil, err
	}
	config := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12, InsecureSkipVerify: mode != "verify-full"}
	if a.rootCert != "" {
		text, err := os.ReadFile(a.rootCert)
		if err != nil {
			return nil, fmt.Errorf("read sslrootcert: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, errors.New("sslrootcert holds no certificate")
		}
	}
	if a.cert != "" || a.key != "" {
		pair, err := tls.LoadX509KeyPair(a.cert, a.key)
		if err != nil {
			return nil, fmt.Errorf("read sslcert and sslkey: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if mode == "verify-ca" {
		roots := config.RootCAs
		config.VerifyConnection = func(s tls.ConnectionState) error {
			between := x509.NewCertPool()
			for _, c := range s.PeerCertificates[1:] {
				between.AddCert(c)
			}
			_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
			return err
		}
	}
	return config, nil
}

// session is what every connection of ours sets, so that no setting of the server shapes a value.
var session = []string{
	"time_zone = '+00:00'",
	"sql_mode = 'NO_BACKSLASH_ESCAPES,ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO'",
	"group_concat_max_len = 1048576",
}

func dialer() *net.Dialer {
	return &net.Dialer{Timeout: connectTimeout, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepAliveIdle,
		Interval: keepAliveEvery, Count: keepAliveCount}}
}

// pool returns connections for queries about the database.
func (e *endpoint) pool() (*sql.DB, error) {
	c := driver.NewConfig()
	c.Net, c.Addr, c.User, c.Passwd, c.DBName, c.TLS = e.network, e.addr, e.user, e.password, e.database, e.tls
	c.Timeout = connectTimeout
	c.Collation = "utf8mb4_general_ci"
	c.InterpolateParams = false
	c.ClientFoundRows = true // an update tells how many rows it found, not how many were different
	c.MaxAllowedPacket = 0   // as the server says
	c.Logger = driver.Logger(&driver.NopLogger{})
	c.Params = map[string]string{}
	for _, set := range session {
		name, value, _ := strings.Cut(set, " = ")
		c.Params[name] = value
	}
	dial := dialer()
	c.DialFunc = dial.DialContext
	connector, err := driver.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", e.addr, err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(2)
	db.SetConnMaxIdleTime(time.Minute)
	return db, nil
}

// dial returns a connection whose packets we read ourselves.
func (e *endpoint) dial(ctx context.Context) (*client.Conn, error) {
	dial := dialer()
	options := []client.Option{func(c *client.Conn) error {
		c.UnsetCapability(wire.CLIENT_DEPRECATE_EOF) // so that our own reading of rows knows one form of them
		c.UnsetCapability(wire.CLIENT_QUERY_ATTRIBUTES)
		return nil
	}}
	if e.tls != nil {
		options = append(options, func(c *client.Conn) error {
			c.SetTLSConfig(e.tls.Clone())
			return nil
		})
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := client.ConnectWithDialer(ctx, e.network, e.addr, e.user, e.password, e.database, dial.DialContext, options...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s as %s: %w", e.addr, e.user, plain(err))
	}
	for _, statement := range []string{"SET NAMES utf8mb4", "SET " + strings.Join(session, ", ")} {
		if _, err := conn.Execute(statement); err != nil {
			conn.Close()
			return nil, fmt.Errorf("set up session: %w", plain(err))
		}
	}
	return conn, nil
}
