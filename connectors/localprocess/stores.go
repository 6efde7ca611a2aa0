//go:build unix

package localprocess

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
)

// Redis is the server of the package redis-server, which keeps nothing on disk.
func Redis(flags ...string) Server {
	return Server{
		Program: "redis-server", Missing: "apt-get install redis-server",
		Args: func(dir string, ports []int) ([]string, error) {
			return append([]string{"--port", strconv.Itoa(ports[0]), "--bind", "127.0.0.1", "--dir", dir, "--save", ""}, flags...), nil
		},
		Ready: pong,
	}
}

// pong asks a Redis for an answer.
func pong(ctx context.Context, address string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if end, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(end)
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && answer != "+PONG\r\n" {
		err = fmt.Errorf("it answers %q", answer)
	}
	return err
}

// clickhouseSettings and clickhouseUsers are the files of a private server.
const (
	clickhouseSettings = `<yandex><logger><level>warning</level><console>1</console></logger>
<tcp_port>%d</tcp_port><http_port>%d</http_port><listen_host>127.0.0.1</listen_host>
<path>%[3]s/data/</path><tmp_path>%[3]s/tmp/</tmp_path><users_config>%[3]s/users.xml</users_config>
<default_profile>default</default_profile><default_database>default</default_database>
<mark_cache_size>67108864</mark_cache_size></yandex>`
	clickhouseUsers = `<yandex><profiles><default/></profiles><quotas><default/></quotas><users><default><password></password>
<networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users></yandex>`
)

// ClickHouse is the server of the package clickhouse-server: the native protocol at its first port, HTTP at the second.
func ClickHouse() Server {
	return Server{
		Program: "clickhouse-server", Folders: []string{"/usr/sbin", "/usr/bin"}, Missing: "apt-get install clickhouse-server", Ports: 2,
		Args: func(dir string, ports []int) ([]string, error) {
			config := filepath.Join(dir, "config.xml")
			if err := os.WriteFile(config, fmt.Appendf(nil, clickhouseSettings, ports[0], ports[1], dir), 0o600); err != nil {
				return nil, err
			}
			return []string{"--config-file=" + config}, os.WriteFile(filepath.Join(dir, "users.xml"), []byte(clickhouseUsers), 0o600)
		},
		Ready: connects,
	}
}

// connects reports that somebody listens: this server does so once it is ready.
func connects(ctx context.Context, address string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err == nil {
		err = conn.Close()
	}
	return err
}

// Search is osmem-server, which speaks OpenSearch's interface over memory: the one that scripts/setup-stores puts into the
// folder bin, or the one that TRUNKLINE_OSMEM names.
func Search(bin string) (Server, error) {
	program := os.Getenv("TRUNKLINE_OSMEM")
	if program == "" {
		var err error
		if program, err = filepath.Abs(filepath.Join(bin, "osmem/osmem_server/bin/osmem-server")); err != nil {
			return Server{}, fmt.Errorf("find osmem-server: %w", err)
		}
	}
	return Server{
		Program: program, Missing: "run scripts/setup-stores",
		Args: func(_ string, ports []int) ([]string, error) {
			return []string{"-addr", "127.0.0.1:" + strconv.Itoa(ports[0]), "-no-stdin-watch"}, nil
		},
		Ready: answers,
	}, nil
}

// answers asks a web server for its root.
func answers(ctx context.Context, address string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address, nil)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if closing := resp.Body.Close(); err == nil {
		err = closing
	}
	return err
}
