//go:build storm

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// newNetwork makes the hosts; nil where that is not allowed. It takes root and iproute2.
func newNetwork(t *testing.T, hosts ...string) *network {
	n := &network{t: t, id: os.Getpid(), hosts: hosts, dir: t.TempDir()}
	try := func(line string) bool {
		words := strings.Fields(line)
		out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
		if err != nil {
			t.Logf("%s: %v: %s", line, err, strings.TrimSpace(string(out)))
		}
		return err == nil
	}
	hub := n.space("hub")
	if !try("ip netns add " + hub) {
		return nil
	}
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", hub).Run() })
	ok := try("ip -n "+hub+" link add hub type bridge") && try("ip -n "+hub+" link set hub up")
	for i, h := range hosts {
		space := n.space(h)
		ok = ok && try("ip netns add "+space)
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", space).Run() })
		for _, line := range []string{
			fmt.Sprintf("ip link add eth0 netns %s type veth peer name to-%s netns %s", space, h, hub),
			fmt.Sprintf("ip -n %s link set to-%s master hub up", hub, h),
			fmt.Sprintf("ip -n %s addr add %s/24 dev eth0", space, n.address(i)),
			fmt.Sprintf("ip -n %s link set lo up", space), fmt.Sprintf("ip -n %s link set eth0 up", space),
			"mkdir " + n.memory(h), fmt.Sprintf("mount -t tmpfs -o size=%d tmpfs %s", networkMemory, n.memory(h)),
		} {
			ok = ok && try(line)
		}
		t.Cleanup(func() { _ = exec.Command("umount", "-l", n.memory(h)).Run() })
	}
	if !ok {
		return nil
	}
	return n
}

// networkMemory is how much memory a host has for snapshots.
const networkMemory = 32 << 20

// etcd is servers on all hosts.
func (n *network) etcd() string {
	var list []string
	for i, h := range n.hosts {
		list = append(list, h+"@"+n.address(i)+":2379")
	}
	return "embedded=" + strings.Join(list, ",")
}

// link cuts the link of a host, or mends it.
func (n *network) link(host string, up bool) {
	to := "down"
	if up {
		to = "up"
	}
	if out, err := exec.Command("ip", "-n", n.space("hub"), "link", "set", "to-"+host,
		to).CombinedOutput(); err != nil {
		n.t.Errorf("link of %s: %v: %s", host, err, out)
	}
}

// fill takes the memory of a host that is left; empty gives it back.
func (n *network) fill(host string) (empty func()) {
	path := filepath.Join(n.memory(host), "full")
	f, err := os.Create(path)
	if err != nil {
		return func() {}
	}
	for b := make([]byte, 1<<16); err == nil; {
		_, err = f.Write(b)
	}
	f.Close()
	return func() { _ = os.Remove(path) }
}
