package cluster

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

//go:embed presets.json
var presetFile []byte

// presetDevice is a line of the table. Bandwidths are in 1e9 bytes, rates in 1e12 operations a second. Memory
// is in 1e9 bytes, as it is sold; devices report up to 7% more, which stays in reserve.
type presetDevice struct {
	Name      string             `json:"name"`
	Memory    float64            `json:"memory_gb"`
	Bandwidth float64            `json:"bandwidth_gbps"`
	Rates     map[string]float64 `json:"tflops"`
	Measured  map[string]float64 `json:"measured_tflops"`
	Link      string             `json:"link"`
	LinkRate  float64            `json:"link_gbps"`
	LinkPart  float64            `json:"link_efficiency"`
	Units     int                `json:"sms"`
	Bus       float64            `json:"pcie_gbps"`
}

type presetHost struct {
	Name    string  `json:"name"`
	Device  string  `json:"device"`
	Devices int     `json:"devices"`
	NICs    int     `json:"nics"`
	NIC     float64 `json:"nic_gbps"`
	Over    float64 `json:"oversubscription"`
}

type presetTable struct {
	Devices []presetDevice `json:"devices"`
	Hosts   []presetHost   `json:"hosts"`
}

var presets = sync.OnceValue(func() presetTable {
	var t presetTable
	if err := json.Unmarshal(presetFile, &t); err != nil {
		panic("cluster: presets.json: " + err.Error())
	}
	return t
})

// Presets returns the names of the known devices.
func Presets() []string {
	var names []string
	for _, d := range presets().Devices {
		names = append(names, d.Name)
	}
	return names
}

// Preset returns a host with one device of that name, as far as the table has it. A prefix stands for the
// shortest name that begins with it, and of equally short ones for that with the most memory: H100 is
// H100-SXM-80GB. Names may be as drivers print them: NVIDIA A100-SXM4-80GB, AMD Instinct MI300X.
func Preset(name string) (Group, error) {
	d, ok := findDevice(name)
	if !ok {
		return Group{}, unknownDevice(name)
	}
	g := Group{Hosts: 1, Devices: 1, Device: Device{Name: d.Name, Memory: d.Memory * 1e9,
		Bandwidth: d.Bandwidth * 1e9, Units: d.Units}}
	for _, f := range formats {
		if peak := d.Rates[f]; peak > 0 {
			g.Device.Rates = append(g.Device.Rates, Rate{Format: f, Peak: peak * 1e12, Measured: d.Measured[f] * 1e12})
		}
	}
	if d.LinkRate > 0 {
		g.Fabric = Link{Kind: d.Link, Bandwidth: d.LinkRate * 1e9, Efficiency: d.LinkPart}
	}
	if d.Bus > 0 {
		g.Bus = Link{Kind: "pcie", Bandwidth: d.Bus * 1e9}
	}
	return g, nil
}

func findDevice(name string) (presetDevice, bool) {
	name = driverWords.ReplaceAllString(socket.ReplaceAllString(name, "SXM"), " ")
	if d, ok := findPlain(name); ok {
		return d, true
	}
	return findPlain(remark.ReplaceAllString(name, ""))
}

var (
	// driverWords are words that drivers and shops add before and after a device's name.
	driverWords = regexp.MustCompile(
		`(?i)\b(nvidia|geforce|tesla|quadro|amd|radeon|instinct|intel|habana|aws|google|cloud|huawei|` +
			`hbm\w*|gpus?|npus?)\b`)
	// socket matches the socket numbers of NVIDIA devices from A100 on, which names seldom have.
	socket = regexp.MustCompile(`(?i)SXM[45]`)
	remark = regexp.MustCompile(`\([^)]*\)`)
)

func findPlain(name string) (presetDevice, bool) {
	key := squash(name)
	var best presetDevice
	found := false
	for _, d := range presets().Devices {
		k := squash(d.Name)
		if k == key {
			return d, true
		}
		if key == "" || !begins(d.Name, key) && !hasWords(d.Name, name) {
			continue
		}
		if !found || len(d.Name) < len(best.Name) || len(d.Name) == len(best.Name) && d.Memory > best.Memory {
			best, found = d, true
		}
	}
	return best, found
}

// begins reports whether a squashed name is a prefix of another without splitting a number: H20 is not H200,
// but T4 is T4-16GB.
func begins(name, key string) bool {
	for i := range name {
		switch head := squash(name[:i]); {
		case head != key:
		case isDigit(key[len(key)-1]) && isDigit(name[i]):
			return false
		default:
			return true
		}
	}
	return false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// hasWords reports whether a name has all words of a shorter one: V100-16GB is V100-SXM2-16GB.
func hasWords(name, short string) bool {
	words := strings.FieldsFunc(strings.ToLower(name), separates)
	asked := strings.FieldsFunc(strings.ToLower(short), separates)
	for _, w := range asked {
		if !slices.Contains(words, w) {
			return false
		}
	}
	return len(asked) > 1
}

func separates(r rune) bool { return r == '-' || r == ' ' || r == '_' }

func findHost(name string) (presetHost, bool) {
	for _, h := range presets().Hosts {
		if squash(h.Name) == squash(name) {
			return h, true
		}
	}
	return presetHost{}, false
}

// squash normalizes a name for comparison: letters and digits only, in lower case.
func squash(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		}
		return -1
	}, s)
}

// unknownDevice returns an error that names the devices with the most similar names.
func unknownDevice(name string) error {
	type near struct {
		name string
		far  int
	}
	var all []near
	for _, n := range append(Presets(), hostNames()...) {
		all = append(all, near{n, unlike(squash(name), squash(n))})
	}
	slices.SortStableFunc(all, func(a, b near) int { return a.far - b.far })
	var names []string
	for _, n := range all[:3] {
		names = append(names, n.name)
	}
	return fmt.Errorf("unknown hardware %q: near it are %s; or give its numbers: %s mem=80GB bw=2TB/s "+
		"bf16=312T nvlink=300GB/s",
		name, strings.Join(names, ", "), name)
}

func hostNames() []string {
	var names []string
	for _, h := range presets().Hosts {
		names = append(names, h.Name)
	}
	return names
}

// unlike returns the edit distance from a to the nearest prefix of b.
func unlike(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		prev := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := prev
			if a[i] != b[j] {
				cost++
			}
			prev = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return slices.Min(row)
}
