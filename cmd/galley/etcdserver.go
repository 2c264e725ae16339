package main

import (
	"os"
	"strings"

	"github.com/galley-ml/galley/internal/elastic/etcd/server"
)

// etcdServerCmd is etcd, which an agent starts beside itself for --etcd embedded=HOST.
type etcdServerCmd struct {
	Name  string `help:"This host among --hosts." required:"" placeholder:"HOST[:PORT]"`
	Hosts string `help:"All hosts that serve, separated by commas." required:"" placeholder:"HOST[:PORT],…"`
	Dir   string `help:"Directory that the server keeps its keys in." required:"" placeholder:"DIR"`
}

// Run serves until standard input ends, which is whoever started it.
func (c *etcdServerCmd) Run() error {
	return server.Run(server.Config{Name: c.Name, Hosts: strings.Split(c.Hosts, ","), Dir: c.Dir}, os.Stdin)
}
