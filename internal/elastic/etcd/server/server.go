// Package server runs etcd for elastic jobs on hosts that have none: galley launch --etcd embedded=HOST runs
// it beside the agent of each of these hosts, as a separate process of the same binary. So one file is all
// that a host needs, and a killed agent or a crashed server does not take the other with it. Only the command
// imports this package, so that programs that use galley do not include etcd.
package server

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
)

// Config describes which server of a cluster this is.
type Config struct {
	// Name is this host among Hosts: HOST or HOST:PORT. PORT is 2379 by default; the next one is used as well.
	Name  string
	Hosts []string
	// Dir is where the server stores its keys.
	Dir string
}

// Run serves until alive, the connection to the process that started the server, ends. It ignores signals: a
// service manager may send them to all processes, and an agent needs etcd for an orderly exit.
func Run(c Config, alive io.Reader) error {
	settings, err := c.embed()
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	server, err := embed.StartEtcd(settings)
	if err != nil {
		return err
	}
	defer server.Close()
	alone := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, alive)
		close(alone)
	}()
	select {
	case <-alone:
		return nil
	case err := <-server.Err():
		return err
	}
}

// embed returns the server's configuration in etcd's form.
func (x Config) embed() (*embed.Config, error) {
	name, hosts, dir := x.Name, x.Hosts, x.Dir
	c := embed.NewConfig()
	c.Name, c.Dir, c.LogLevel, c.Logger = name, dir, "error", "zap"
	c.LogOutputs = []string{filepath.Join(filepath.Dir(dir), "etcd.log")}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	c.UnsafeNoFsync = true // a host that goes down leaves the job, together with its etcd
	c.TickMs, c.ElectionMs = 100, 1000
	c.AutoCompactionMode, c.AutoCompactionRetention = "revision", "1000"
	c.QuotaBackendBytes = 256 << 20
	var cluster []string
	for _, h := range hosts {
		client, peer, err := urls(h)
		if err != nil {
			return nil, err
		}
		cluster = append(cluster, h+"="+peer.String())
		if h == name {
			c.AdvertiseClientUrls, c.AdvertisePeerUrls = []url.URL{client}, []url.URL{peer}
			c.ListenClientUrls, c.ListenPeerUrls = []url.URL{everywhere(client)}, []url.URL{everywhere(peer)}
		}
	}
	if len(c.AdvertiseClientUrls) == 0 || len(cluster) == 0 {
		return nil, fmt.Errorf("--name=%s: want one of --hosts=%s", name, strings.Join(hosts, ","))
	}
	c.InitialCluster, c.InitialClusterToken = strings.Join(cluster, ","), "galley"
	if _, err := os.Stat(filepath.Join(dir, "member")); err == nil {
		c.ClusterState = embed.ClusterStateFlagExisting
	}
	c.StrictReconfigCheck = true
	return c, nil
}

// urls returns where a host serves its clients, and the other servers.
func urls(host string) (client, peer url.URL, err error) {
	name, port, e := net.SplitHostPort(host)
	if e != nil {
		name, port = host, "2379"
	}
	n := 0
	if _, err := fmt.Sscan(port, &n); err != nil || n < 1 || n > 65534 || name == "" {
		return client, peer, fmt.Errorf("%q: want HOST or HOST:PORT", host)
	}
	at := func(port int) url.URL {
		return url.URL{Scheme: "http", Host: net.JoinHostPort(name, fmt.Sprint(port))}
	}
	return at(n), at(n + 1), nil
}

// everywhere returns an address on all of the host's interfaces.
func everywhere(u url.URL) url.URL {
	_, port, _ := net.SplitHostPort(u.Host)
	u.Host = net.JoinHostPort("0.0.0.0", port)
	return u
}
