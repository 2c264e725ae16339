package discover

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// caches returns the caches of some cores, by level and type.
func (f files) caches(cpus []int) []Cache {
	seen := map[string]bool{}
	var list []Cache
	for _, cpu := range cpus {
		dirs, _ := fs.Glob(f.FS, fmt.Sprintf("sys/devices/system/cpu/cpu%d/cache/index*", cpu))
		for _, dir := range dirs {
			shared := f.text(dir + "/shared_cpu_list")
			c := Cache{
				Level:   f.number(dir+"/level", 0),
				Type:    f.text(dir + "/type"),
				Bytes:   size(f.text(dir + "/size")),
				Threads: max(1, len(List(shared))),
			}
			key := fmt.Sprint(c.Level, c.Type, shared)
			if c.Bytes == 0 || seen[key] {
				continue
			}
			seen[key] = true
			i := slices.IndexFunc(list, func(o Cache) bool {
				return o.Level == c.Level && o.Type == c.Type && o.Bytes == c.Bytes && o.Threads == c.Threads
			})
			if i < 0 {
				i, list = len(list), append(list, c)
			}
			list[i].Count++
		}
	}
	slices.SortStableFunc(list, func(a, b Cache) int {
		return cmp.Or(a.Level-b.Level, strings.Compare(a.Type, b.Type))
	})
	return list
}

// size reads bytes like 32K or 16M.
func size(s string) int {
	unit := 1
	for i, suffix := range []string{"K", "M", "G"} {
		if rest, ok := strings.CutSuffix(s, suffix); ok {
			s, unit = rest, 1<<(10*(i+1))
		}
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > 1<<40 {
		return 0
	}
	return n * unit
}

// nodes returns the NUMA nodes.
func (f files) nodes() []Node {
	dirs, _ := fs.Glob(f.FS, "sys/devices/system/node/node[0-9]*")
	var list []Node
	for _, dir := range dirs {
		id, err := strconv.Atoi(dir[strings.LastIndex(dir, "node")+len("node"):])
		if err != nil {
			continue
		}
		n := Node{ID: id, CPUs: List(f.text(dir + "/cpulist")), Memory: f.kib(dir+"/meminfo", "MemTotal:")}
		for _, word := range strings.Fields(f.text(dir + "/distance")) {
			d, _ := strconv.Atoi(word)
			n.Distances = append(n.Distances, d)
		}
		list = append(list, n)
	}
	slices.SortFunc(list, func(a, b Node) int { return a.ID - b.ID })
	return list
}

// ethernet returns the network interfaces but the one to itself and those that stand for InfiniBand's.
func (f files) ethernet() []NIC {
	dirs, _ := fs.Glob(f.FS, "sys/class/net/*")
	var list []NIC
	for _, dir := range dirs {
		name := dir[strings.LastIndex(dir, "/")+1:]
		if kind := f.number(dir+"/type", 0); kind != 1 { // ARPHRD_ETHER: not lo, not IP over InfiniBand
			continue
		}
		_, err := fs.Stat(f.FS, dir+"/device")
		n := NIC{Name: name, Kind: "eth", Virtual: err != nil, Up: f.text(dir+"/operstate") == "up",
			Node: f.number(dir+"/device/numa_node", -1)}
		if mbit := f.number(dir+"/speed", 0); mbit > 0 {
			n.Speed = float64(mbit) * 1e6
		}
		list = append(list, n)
	}
	return list
}

// infiniband returns the ports of InfiniBand cards, or of Ethernet ones that do RDMA.
func (f files) infiniband() []NIC {
	dirs, _ := fs.Glob(f.FS, "sys/class/infiniband/*/ports/*")
	var list []NIC
	for _, dir := range dirs {
		parts := strings.Split(dir, "/")
		card := strings.Join(parts[:len(parts)-2], "/")
		n := NIC{Name: parts[3] + "/" + parts[5], Kind: "ib", Up: strings.Contains(f.text(dir+"/state"), "ACTIVE"),
			Node: f.number(card+"/device/numa_node", -1)}
		if f.text(dir+"/link_layer") == "Ethernet" {
			n.Kind = "roce"
		}
		gbit, _, _ := strings.Cut(f.text(dir+"/rate"), " ")
		if x, err := strconv.ParseFloat(gbit, 64); err == nil && x > 0 && x < 1e6 {
			n.Speed = x * 1e9
		}
		list = append(list, n)
	}
	return list
}
