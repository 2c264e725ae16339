// Command galley-etcd is an etcd server for elastic jobs on hosts that have none: galley launch --etcd
// embedded=HOST starts it beside the agent of each of these hosts. It is a program of its own, and a module,
// so that galley does not grow by what etcd is made of.
package main

import (
	"flag"
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

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "galley-etcd:", err)
		os.Exit(1)
	}
}

// run serves until a signal comes.
func run() error {
	name := flag.String("name", "", "this host among --hosts: HOST or HOST:PORT")
	hosts := flag.String("hosts", "", "all hosts that serve, HOST or HOST:PORT, separated by commas; PORT is 2379 by default, the next is taken besides")
	dir := flag.String("dir", "", "directory that the server keeps its keys in")
	flag.Parse()
	c, err := config(*name, strings.Split(*hosts, ","), *dir)
	if err != nil {
		return err
	}
	server, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}
	defer server.Close()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	alone := make(chan struct{})
	go func() { // until whoever started the server closes it, or ends
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(alone)
	}()
	select {
	case <-signals:
		return nil
	case <-alone:
		return nil
	case err := <-server.Err():
		return err
	}
}

// config returns the config of one server of a cluster.
func config(name string, hosts []string, dir string) (*embed.Config, error) {
	if dir == "" {
		return nil, fmt.Errorf("-dir: want a directory")
	}
	c := embed.NewConfig()
	c.Name, c.Dir, c.LogLevel, c.Logger = name, dir, "error", "zap"
	c.LogOutputs = []string{filepath.Join(filepath.Dir(dir), "etcd.log")}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	c.UnsafeNoFsync = true // a host that goes down leaves the job, and its etcd with it
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
		return nil, fmt.Errorf("-name=%s: want one of -hosts=%s", name, strings.Join(hosts, ","))
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
