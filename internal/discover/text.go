package discover

import (
	"fmt"
	"strings"
)

// String returns the machine in lines as galley doctor prints them.
func (m Info) String() string {
	var b strings.Builder
	line := func(key, format string,
		args ...any) {
		fmt.Fprintf(&b, "%-9s %s\n", key, fmt.Sprintf(format, args...))
	}
	line("topology", "%d socket(s), %d core(s), %d thread(s)", m.Sockets, m.Cores, m.Threads)
	for _, c := range m.Caches {
		line("cache", "level %d %s: %d of %s, shared by %d thread(s)", c.Level, strings.ToLower(c.Type), c.Count,
			binary(c.Bytes), c.Threads)
	}
	for _, n := range m.Nodes {
		line("numa", "node %d: %d thread(s), %.1f GB, distances %v", n.ID, len(n.CPUs), n.Memory/1e9, n.Distances)
	}
	if len(m.NICs) == 0 {
		line("network", "no card")
	}
	for _, n := range m.NICs {
		line("network", "%s", n)
	}
	for i, g := range m.GPUs {
		line(
			"gpu",
			"%d: %s, %.1f GB, %d NVLink(s) of %.0f GB/s, PCIe %.0f GB/s%s",
			i,
			g.Name,
			g.Memory/1e9,
			g.NVLinks,
			g.NVLink/1e9,
			g.PCIe/1e9,
			g.ways(i),
		)
	}
	if m.NoGPUs != "" {
		line("gpu", "none: %s", m.NoGPUs)
	}
	return b.String()
}

// ways returns how a GPU reaches the others.
func (g GPU) ways(own int) string {
	var list []string
	for i, p := range g.Paths {
		if i != own {
			list = append(list, fmt.Sprintf("%d by %s", i, p))
		}
	}
	if list == nil {
		return ""
	}
	return "; to " + strings.Join(list, ", ")
}

// String returns the card in a line.
func (n NIC) String() string {
	text := n.Name + ": " + n.Kind
	if n.Virtual {
		text += ", virtual"
	}
	if n.Speed > 0 {
		text += fmt.Sprintf(", %g Gbit/s", n.Speed/1e9)
	} else {
		text += ", speed unknown"
	}
	if !n.Up {
		text += ", down"
	}
	if n.Node >= 0 {
		text += fmt.Sprintf(", node %d", n.Node)
	}
	return text
}

func binary(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}
