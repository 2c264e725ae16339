package search

import (
	"cmp"
	"slices"

	"github.com/galley-ml/galley/internal/cluster"
)

// arrangement is a cluster with its hosts reordered, so that stages of a pipeline have equal devices.
type arrangement struct {
	cluster *cluster.Cluster
	// devices maps each device of the arranged cluster to its number in the given cluster.
	devices []int
}

// mostClasses is the number of host types up to which all orders are tried; beyond, the fastest come first or
// last.
const mostClasses = 3

// arrangements returns the orders in which types of hosts may follow each other along a pipeline, the given
// one first: of all types, and of some, because slow hosts may slow down the whole more than they contribute.
// A cluster with explicit wires, which name hosts by number, is not reordered.
func arrangements(c *cluster.Cluster) []arrangement {
	list := []arrangement{{cluster: c}}
	if len(c.Groups) < 2 || len(c.Wires) > 0 {
		return list
	}
	classes := classesOf(c)
	for some := 1<<len(classes) - 1; some > 0; some-- {
		var of []int
		for k := range classes {
			if some>>k&1 == 1 {
				of = append(of, k)
			}
		}
		if len(classes) > mostClasses && len(of) < len(classes)-1 {
			continue // too many to try
		}
		for _, order := range orders(c, classes, of) {
			a := arrange(c, classes, order)
			if !a.cluster.Equal(c) && a.cluster.Check() == nil {
				list = append(list, a)
			}
		}
	}
	return list
}

// classesOf groups the host groups of a cluster that are equal except for their number of hosts.
func classesOf(c *cluster.Cluster) [][]int {
	var classes [][]int
	for i, g := range c.Groups {
		k := slices.IndexFunc(classes, func(class []int) bool {
			h := c.Groups[class[0]]
			h.Hosts = g.Hosts
			a, b := &cluster.Cluster{Groups: []cluster.Group{g}}, &cluster.Cluster{Groups: []cluster.Group{h}}
			return a.Equal(b)
		})
		if k < 0 {
			classes = append(classes, []int{i})
		} else {
			classes[k] = append(classes[k], i)
		}
	}
	return classes
}

// orders returns the orders of some classes that are tried.
func orders(c *cluster.Cluster, classes [][]int, of []int) [][]int {
	first := slices.Clone(of)
	if len(of) > mostClasses {
		rate := func(k int) float64 { r, _ := c.Groups[classes[k][0]].Device.Rate("bf16"); return r.Peak }
		slices.SortStableFunc(first, func(a, b int) int { return cmp.Compare(rate(b), rate(a)) })
		last := slices.Clone(first)
		slices.Reverse(last)
		return [][]int{first, last}
	}
	var list [][]int
	var permute func(k int)
	permute = func(k int) {
		if k == len(first) {
			list = append(list, slices.Clone(first))
			return
		}
		for i := k; i < len(first); i++ {
			first[k], first[i] = first[i], first[k]
			permute(k + 1)
			first[k], first[i] = first[i], first[k]
		}
	}
	permute(0)
	return list
}

// arrange puts the hosts of each class together, in an order of classes.
func arrange(c *cluster.Cluster, classes [][]int, order []int) arrangement {
	starts := make([]int, len(c.Groups))
	for i := 1; i < len(c.Groups); i++ {
		starts[i] = starts[i-1] + c.Groups[i-1].Hosts*c.Groups[i-1].Devices
	}
	a := arrangement{cluster: &cluster.Cluster{Name: c.Name, Tiers: c.Tiers}}
	for _, k := range order {
		g := c.Groups[classes[k][0]]
		g.Hosts = 0
		for _, i := range classes[k] {
			g.Hosts += c.Groups[i].Hosts
			for d := range c.Groups[i].Hosts * c.Groups[i].Devices {
				a.devices = append(a.devices, starts[i]+d)
			}
		}
		a.cluster.Groups = append(a.cluster.Groups, g)
	}
	return a
}
