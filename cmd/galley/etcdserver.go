package main

import (
	"os"
	"strings"

	"github.com/galley-ml/galley/internal/elastic/etcd/server"
)

// etcdServerCmd runs an etcd server, which an agent starts beside itself for --etcd embedded=HOST.
type etcdServerCmd struct {
	Name  string `help:"This host among --hosts." required:"" placeholder:"HOST[:PORT]"`
	Hosts string `help:"All hosts that serve, separated by commas." required:"" placeholder:"HOST[:PORT],…"`
	Dir   string `help:"Directory that the server keeps its keys in." required:"" placeholder:"DIR"`
}

// Run serves until standard input is closed, which means that the agent that started it has ended.
func (c *etcdServerCmd) Run() error {
	return server.Run(server.Config{Name: c.Name, Hosts: strings.Split(c.Hosts, ","), Dir: c.Dir}, os.Stdin)
}
