package discover

// GPU is one accelerator as its driver describes it.
type GPU struct {
	Name string `json:"name"`
	// Memory is in bytes.
	Memory float64 `json:"memory"`
	// NVLinks is how many are up, NVLink the bytes a second of one, one way.
	NVLinks int     `json:"nvlinks"`
	NVLink  float64 `json:"nvlink,omitempty"`
	// PCIe is bytes a second to the host, one way.
	PCIe float64 `json:"pcie,omitempty"`
	// Paths is how the way to each other GPU goes, by its place: nvlink, or the nearest thing that both hang on.
	Paths []string `json:"paths,omitempty"`
}

// nvlinkBytes is the bytes a second of a link one way, by its version.
var nvlinkBytes = map[uint32]float64{1: 20e9, 2: 25e9, 3: 25e9, 4: 25e9, 5: 50e9}

// pcieBytes is the bytes a second of a lane by generation.
var pcieBytes = map[uint32]float64{1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}

// ancestors is what NVML calls the nearest thing that two GPUs hang on.
var ancestors = map[uint32]string{
	0:  "one board",
	10: "one PCIe switch",
	20: "PCIe switches",
	30: "a PCIe host bridge",
	40: "one NUMA node",
	50: "another NUMA node",
}
