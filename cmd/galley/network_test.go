package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// network is hosts on this machine: network namespaces with names of their own, joined by a bridge, each with
// a file system in memory. A nil network is that of this machine, which all hosts share.
type network struct {
	t     *testing.T
	id    int
	hosts []string
	dir   string
}

func (n *network) space(host string) string { return fmt.Sprintf("galley%d-%s", n.id, host) }

func (n *network) memory(host string) string { return filepath.Join(n.dir, "memory-"+host) }

func (n *network) address(i int) string { return fmt.Sprintf("10.78.0.%d", i+1) }

// flags are those of an agent on a host.
func (n *network) flags(host string) string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf("--address %s --memory %s", n.address(slices.Index(n.hosts, host)), n.memory(host))
}

// within has a command run on a host. Its process is the same.
func (n *network) within(cmd *exec.Cmd, host string) {
	if n == nil {
		return
	}
	args := []string{"ip", "netns", "exec", n.space(host), "unshare", "--uts", "sh", "-c",
		`hostname "$0" && exec "$@"`, host, cmd.Path}
	ip, err := exec.LookPath(args[0])
	if err != nil {
		n.t.Fatal(err)
	}
	cmd.Path, cmd.Args = ip, append(args, cmd.Args[1:]...)
}
