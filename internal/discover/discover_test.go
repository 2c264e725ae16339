package discover

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// machine returns a host of two sockets with two cores of two threads each, as Linux describes it.
func machine() fstest.MapFS {
	m := fstest.MapFS{}
	put := func(path, text string) { m[path] = &fstest.MapFile{Data: []byte(text + "\n")} }
	put("proc/cpuinfo", "processor\t: 0\nmodel name\t: A Fine CPU")
	put("proc/meminfo", "MemTotal:       2048 kB\nMemFree: 3 kB")
	put("sys/devices/system/cpu/online", "0-7")
	for cpu := range 8 {
		core, socket := cpu%4, cpu%4/2
		at := "sys/devices/system/cpu/cpu" + string(rune('0'+cpu)) + "/"
		siblings := string(rune('0'+core)) + "," + string(rune('4'+core))
		put(at+"topology/physical_package_id", string(rune('0'+socket)))
		put(at+"topology/thread_siblings_list", siblings)
		put(at+"cache/index0/level", "1")
		put(at+"cache/index0/type", "Data")
		put(at+"cache/index0/size", "48K")
		put(at+"cache/index0/shared_cpu_list", siblings)
		put(at+"cache/index3/level", "3")
		put(at+"cache/index3/type", "Unified")
		put(at+"cache/index3/size", "16M")
		put(at+"cache/index3/shared_cpu_list", []string{"0-1,4-5", "2-3,6-7"}[socket])
	}
	for i, node := range []string{"node0", "node1"} {
		at := "sys/devices/system/node/" + node + "/"
		put(at+"cpulist", []string{"0-1,4-5", "2-3,6-7"}[i])
		put(at+"meminfo", "Node 0 MemTotal:     1024 kB")
		put(at+"distance", []string{"10 21", "21 10"}[i])
	}
	put("sys/class/net/lo/type", "772")
	put("sys/class/net/eth0/type", "1")
	put("sys/class/net/eth0/operstate", "up")
	put("sys/class/net/eth0/speed", "25000")
	put("sys/class/net/eth0/device/numa_node", "1")
	put("sys/class/net/veth1/type", "1")
	put("sys/class/net/veth1/operstate", "down")
	put("sys/class/net/veth1/speed", "-1")
	put("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE")
	put("sys/class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)")
	put("sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand")
	return m
}

func TestFiles(t *testing.T) {
	want := Info{
		CPU: "A Fine CPU", Sockets: 2, Cores: 4, Threads: 8, Memory: 2 << 20,
		Caches: []Cache{{1, "Data", 48 << 10, 4, 2}, {3, "Unified", 16 << 20, 2, 4}},
		Nodes: []Node{{0, []int{0, 1, 4, 5}, 1 << 20, []int{10, 21}},
			{1, []int{2, 3, 6, 7}, 1 << 20, []int{21, 10}}},
		NICs: []NIC{{"eth0", "eth", false, 25e9, true, 1}, {"veth1", "eth", true, 0, false, -1},
			{"mlx5_0/1", "ib", false, 400e9, true, -1}},
	}
	got := Files(machine())
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, line := range []string{"topology  2 socket(s), 4 core(s), 8 thread(s)",
		"cache     level 3 unified: 2 of 16 MiB, shared by 4 thread(s)", "network   eth0: eth, 25 Gbit/s, node 1",
		"network   veth1: eth, virtual, speed unknown, down"} {
		if !strings.Contains(got.String(), line+"\n") {
			t.Errorf("no line %q in\n%s", line, got)
		}
	}
}

// TestNothing: a system that says nothing is no error.
func TestNothing(t *testing.T) {
	if d := cmp.Diff(Info{}, Files(fstest.MapFS{})); d != "" {
		t.Error(d)
	}
}

// TestNoNVML: a library that is not there is told, by name.
func TestNoNVML(t *testing.T) {
	t.Setenv("GALLEY_NVML_LIBRARY", "/nowhere/libnvidia-ml.so")
	m := Machine(fstest.MapFS{})
	if len(m.GPUs) > 0 || !strings.Contains(m.NoGPUs, "NVML") {
		t.Errorf("got %+v", m)
	}
}

func FuzzList(f *testing.F) {
	f.Add("0-3,8")
	f.Add("1-,-2,99999999-999999999")
	f.Fuzz(func(t *testing.T, s string) {
		list := List(s)
		for i, n := range list {
			if n < 0 || i > 0 && n <= list[i-1] {
				t.Fatalf("%q: got %v", s, list)
			}
		}
	})
}
