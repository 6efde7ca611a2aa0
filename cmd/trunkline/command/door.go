package command

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/bcrypt"

	"github.com/trunkline/trunkline/log"
	"github.com/trunkline/trunkline/pipeline"
	"github.com/trunkline/trunkline/pipeline/api"
	"github.com/trunkline/trunkline/pipeline/config"
)

// minPassword is the length below which a password is not hashed, maxPassword what bcrypt takes.
const (
	minPassword = 8
	maxPassword = 72
)

// tokenVariable is where a command finds the token of its user.
const tokenVariable = "TRUNKLINE_TOKEN"

// visitors says who may use the page and the API of a daemon.
func visitors(cfg config.HTTP) []api.User {
	var out []api.User
	for i := range cfg.Users {
		u := &cfg.Users[i]
		known := api.User{Name: u.Name, Password: []byte(u.Password), Role: api.Role(u.Role)}
		copy(known.Token[:], u.TokenHash())
		out = append(out, known)
	}
	return out
}

// daemonAPI is the API of a daemon, with the login that its configuration asks for.
func (a *app) daemonAPI(cfg config.Config, p *pipeline.Pipeline, journal log.Log, logger *slog.Logger) api.Options {
	return api.Options{Pipeline: p, Journal: journal, Version: a.version, Logger: logger, Token: cfg.HTTP.Token, Users: visitors(cfg.HTTP), Audit: true}
}

// secured wraps the listener in TLS where the configuration has a certificate.
func secured(listener net.Listener, cfg config.HTTP, logger *slog.Logger) (net.Listener, string, error) {
	if cfg.TLS.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(cfg.TLS.Certificate, cfg.TLS.Key)
		if err != nil {
			return nil, "", errors.Join(fmt.Errorf("load http.tls: %w", err), listener.Close())
		}
		return tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}), "https", nil
	}
	if address, ok := listener.Addr().(*net.TCPAddr); ok && !address.IP.IsLoopback() {
		logger.Warn("passwords and tokens cross the network in the clear: set http.tls, or put a proxy that speaks TLS before " + listener.Addr().String())
	}
	return listener, "http", nil
}

// token is what a command shows to a daemon: its user's own, or else the one of the configuration.
func token(cfg config.HTTP) string { return cmp.Or(os.Getenv(tokenVariable), cfg.Token) }

// trust returns how a command knows the daemon of a configuration: by the very certificate that the configuration names,
// or by one that the system trusts for the name that was dialed. Nil: the daemon speaks plain HTTP.
func trust(cfg config.HTTP) (*tls.Config, error) {
	if cfg.TLS.Certificate == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(cfg.TLS.Certificate, cfg.TLS.Key)
	if err != nil {
		return nil, fmt.Errorf("load http.tls: %w", err)
	}
	own := pair.Certificate[0]
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // VerifyConnection does it
		VerifyConnection: func(state tls.ConnectionState) error {
			if bytes.Equal(state.PeerCertificates[0].Raw, own) {
				return nil
			}
			between := x509.NewCertPool()
			for _, c := range state.PeerCertificates[1:] {
				between.AddCert(c)
			}
			_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{DNSName: state.ServerName, Intermediates: between})
			return err
		},
	}, nil
}

func (a *app) passwordCommand() *cobra.Command {
	var forToken bool
	c := &cobra.Command{
		Use: "password", Short: "Hash a password, or make a token, for http.users", Args: cobra.NoArgs,
		Long: `Reads a password, one line, from standard input and prints its hash by bcrypt for
http.users. With --token it reads nothing, makes a token, and prints it and its hash:
the hash belongs into http.users, the token to whoever shows it.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if forToken {
				made := rand.Text() + rand.Text()
				hash := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(made)))
				if a.json {
					return a.printJSON(map[string]string{"token": made, "hash": hash})
				}
				_, err := fmt.Fprintf(a.out, "token %s\nhash  %s\n", made, hash)
				return err
			}
			line, err := bufio.NewReader(io.LimitReader(c.InOrStdin(), 1<<10)).ReadString('\n')
			if err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("read password: %w", err)
			}
			line = strings.TrimRight(line, "\r\n")
			if len(line) < minPassword || len(line) > maxPassword {
				return usagef("a password has %d to %d bytes", minPassword, maxPassword)
			}
			hash, err := bcrypt.GenerateFromPassword([]byte(line), bcrypt.DefaultCost)
			if err != nil {
				return fmt.Errorf("hash password: %w", err)
			}
			if a.json {
				return a.printJSON(map[string]string{"hash": string(hash)})
			}
			_, err = fmt.Fprintln(a.out, string(hash))
			return err
		},
	}
	c.Flags().BoolVar(&a.json, "json", false, "print JSON for machines")
	c.Flags().BoolVar(&forToken, "token", false, "make a token in place of a password's hash")
	return c
}
