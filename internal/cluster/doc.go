// Package cluster describes hardware: devices, what joins them, and how long a collective takes on it.
//
// Its one idea: a cluster is a graph that people write in one line, and every cost comes from its edges.
// Devices hang on a host's fabric, hosts on switches through their NICs, switches on wider switches that may
// be oversubscribed; further links may join any two devices or hosts. Devices are numbered through the hosts
// in order, and that number is the rank they get unless a plan maps ranks otherwise.
//
//	c, err := cluster.Parse("64x8 H100-SXM ib=400G")
//	t := c.Collective(cluster.AllReduce, 1<<30, cluster.Axis{Size: 8, Stride: 1})
//	t.Seconds, t.Algorithm // 4.5 ms, nvls
//
// A mixed cluster joins groups of hosts: "2x4 V100-SXM2-16GB eth=10G + 1x4 T4 eth=50G". What a line cannot
// say, YAML can; both print and parse again to the same value.
//
// An Axis is one parallel dimension laid over the devices: groups of Size, Stride apart, all of which
// communicate at once. That is what makes NICs shared: with tensor parallelism inside a host, eight
// data-parallel groups leave through eight NICs together.
package cluster
