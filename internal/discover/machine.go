package discover

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Info is what a machine has. Zeros are what it does not say.
type Info struct {
	CPU string `json:"cpu,omitempty"`
	// Sockets, Cores and Threads are counts: threads of a core share it.
	Sockets int `json:"sockets"`
	Cores   int `json:"cores"`
	Threads int `json:"threads"`
	// Memory is in bytes.
	Memory float64 `json:"memory"`
	Caches []Cache `json:"caches,omitempty"`
	Nodes  []Node  `json:"nodes,omitempty"`
	NICs   []NIC   `json:"nics,omitempty"`
	GPUs   []GPU   `json:"gpus,omitempty"`
	// NoGPUs says why none is listed.
	NoGPUs string `json:"no_gpus,omitempty"`
}

// Cache is one level of caches of one type.
type Cache struct {
	Level int    `json:"level"`
	Type  string `json:"type"` // Data, Instruction or Unified
	Bytes int    `json:"bytes"`
	// Count is how many there are, Threads how many threads share one.
	Count   int `json:"count"`
	Threads int `json:"threads"`
}

// Node is a NUMA node.
type Node struct {
	ID   int   `json:"id"`
	CPUs []int `json:"cpus"`
	// Memory is in bytes. Distances are to all nodes, 10 to itself.
	Memory    float64 `json:"memory"`
	Distances []int   `json:"distances,omitempty"`
}

// NIC is a network card.
type NIC struct {
	Name string `json:"name"`
	// Kind is eth or ib; Virtual is one without hardware, as between containers.
	Kind    string `json:"kind"`
	Virtual bool   `json:"virtual,omitempty"`
	// Speed is in bits a second, 0 where it does not say; Up is whether it carries data.
	Speed float64 `json:"speed"`
	Up    bool    `json:"up"`
	// Node is its NUMA node, -1 where it has none.
	Node int `json:"node"`
}

// Machine reads what the files below a root say, and asks the GPUs.
func Machine(root fs.FS) Info {
	m := Files(root)
	var err error
	if m.GPUs, err = gpus(); err != nil {
		m.NoGPUs = err.Error()
	}
	return m
}

// Files reads what the files below a root say.
func Files(root fs.FS) Info {
	f := files{root}
	m := Info{CPU: f.field("proc/cpuinfo", "model name"), Memory: f.kib("proc/meminfo", "MemTotal:")}
	cpus := List(f.text("sys/devices/system/cpu/online"))
	sockets, cores := map[string]bool{}, map[string]bool{}
	for _, cpu := range cpus {
		at := fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/", cpu)
		socket := f.text(at + "physical_package_id")
		sockets[socket] = true
		if siblings := f.text(at + "thread_siblings_list"); siblings != "" {
			cores[siblings] = true
		} else {
			cores[socket+"/"+f.text(at+"core_id")+"/"+strconv.Itoa(cpu)] = true
		}
	}
	m.Sockets, m.Cores, m.Threads = len(sockets), len(cores), len(cpus)
	m.Caches, m.Nodes = f.caches(cpus), f.nodes()
	m.NICs = append(f.ethernet(), f.infiniband()...)
	return m
}

// files are those of a system, below a root.
type files struct{ fs.FS }

// text returns a file without the space around it; empty where it cannot be read.
func (f files) text(path string) string {
	b, err := fs.ReadFile(f.FS, path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func (f files) number(path string, missing int) int {
	n, err := strconv.Atoi(f.text(path))
	if err != nil {
		return missing
	}
	return n
}

// field returns the value of the first line of a file with a key.
func (f files) field(path, key string) string {
	for line := range strings.SplitSeq(f.text(path), "\n") {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// kib returns the bytes of a line like MemTotal: 123 kB, behind other words or none.
func (f files) kib(path, key string) float64 {
	for line := range strings.SplitSeq(f.text(path), "\n") {
		words := strings.Fields(line)
		if i := slices.Index(words, key); i >= 0 && i+1 < len(words) {
			if x, err := strconv.ParseFloat(words[i+1], 64); err == nil && x > 0 {
				return x * 1024
			}
		}
	}
	return 0
}

// most is how many a list may have: more is no machine.
const most = 1 << 16

// List reads numbers as Linux writes sets of them: 0-3,8.
func List(s string) []int {
	var list []int
	for part := range strings.SplitSeq(s, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		lo, err := strconv.Atoi(first)
		hi := lo
		if isRange && err == nil {
			hi, err = strconv.Atoi(last)
		}
		if err != nil || lo < 0 || hi < lo || hi >= most {
			continue
		}
		for n := lo; n <= hi; n++ {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
