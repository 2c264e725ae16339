package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/cluster"
)

// TestJobHosts: processes of one name that follow each other share a host, and so do their devices where
// hosts are alike.
func TestJobHosts(t *testing.T) {
	host := func(name string, processes int) galley.AutoHost {
		return galley.AutoHost{Machine: name, Processes: processes, Cores: 3 * processes}
	}
	for _, c := range []struct {
		names   string
		devices int
		hosts   []galley.AutoHost
		sharing int
	}{
		{"a", 4, []galley.AutoHost{host("a", 1)}, 0},
		{"a a b b", 4, []galley.AutoHost{host("a", 2), host("b", 2)}, 2},
		{"a b", 8, []galley.AutoHost{host("a", 1), host("b", 1)}, 4},
		{"a b", 2, []galley.AutoHost{host("a", 1), host("b", 1)}, 0},
		{"a b", 6, []galley.AutoHost{host("a", 1), host("b", 1)}, 0},
		{"a a b", 6, []galley.AutoHost{host("a", 2), host("b", 1)}, 0},
		{"a b a b", 8, []galley.AutoHost{host("a", 1), host("b", 1), host("a", 1), host("b", 1)}, 0},
	} {
		names := strings.Fields(c.names)
		if got := hostsOf(names, 3); !slices.Equal(got, c.hosts) {
			t.Errorf("%s: got %v, want %v", c.names, got, c.hosts)
		}
		if got := sharing(names, c.devices); got != c.sharing {
			t.Errorf("%s, %d devices: got %d, want %d", c.names, c.devices, got, c.sharing)
		}
	}
}

// TestLaunchPlans: a job plans with the cluster that it is given, if that is of its processes.
func TestLaunchPlans(t *testing.T) {
	notShort(t)
	t.Parallel()
	needMPICH(t)
	file := func(devices int) string {
		path := filepath.Join(t.TempDir(), "cluster.yaml")
		text := cluster.Local(cluster.LocalConfig{Devices: devices}).YAML()
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		args, want string
		fails      bool
	}{
		{"--cluster " + file(2), "chose ", false},
		{"--cluster " + file(3), "it has devices by host [3], the job has 2 devices and processes by host [2]",
			true},
		{"--mesh dp=2 --cluster " + file(2), "neither --mesh nor --plan", true},
	} {
		words := strings.Fields("launch -n 2 -- train --steps 1 --probe off " + c.args)
		out, err := galleyCommand(t, append(words, tinyRun...)...).CombinedOutput()
		if (err != nil) != c.fails || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: got %v and %s, want %q", c.args, err, out, c.want)
		}
	}
}
