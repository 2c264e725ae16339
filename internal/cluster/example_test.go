package cluster_test

import (
	"fmt"

	"github.com/galley-ml/galley/internal/cluster"
)

func ExampleParse() {
	c, err := cluster.Parse("64x8 H100-SXM ib=400G")
	fmt.Println(c, err)
	inside := c.Collective(cluster.AllReduce, 1<<30, cluster.Axis{Size: 8, Stride: 1})
	across := c.Collective(cluster.AllReduce, 1<<30, cluster.Axis{Size: 64, Stride: 8})
	fmt.Printf("in a host %.1f ms by %s, between hosts %.1f ms by %s\n", 1e3*inside.Seconds, inside.Algorithm,
		1e3*across.Seconds, across.Algorithm)
	_, err = cluster.Parse("8 H1000")
	fmt.Println(err)
	// Output:
	// 64x8 H100-SXM-80GB ib=400G <nil>
	// in a host 4.5 ms by nvls, between hosts 47.1 ms by ring
	// cluster: unknown hardware "H1000": near it are H100-SXM-80GB, H100-PCIe-80GB, H100-SXM-96GB-HBM2e-500W; or give its numbers: H1000 mem=80GB bw=2TB/s bf16=312T nvlink=300GB/s
}

func ExampleCluster_TrafficOn() {
	c, err := cluster.Parse("1x4 V100-SXM2-16GB eth=10G nics=1 + 1x4 T4 eth=50G nics=1")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, g := range [][]int{{0, 1, 2, 3}, {4, 5, 6, 7}, {0, 4}} {
		t := c.TrafficOn([][]int{g}).Cost(cluster.AllReduce, 1e8)
		fmt.Printf("%v: %.1f ms\n", g, 1e3*t.Seconds)
	}
	// Output:
	// [0 1 2 3]: 1.2 ms
	// [4 5 6 7]: 21.2 ms
	// [0 4]: 106.8 ms
}
