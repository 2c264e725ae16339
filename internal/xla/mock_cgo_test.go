//go:build cgo && linux

package xla

import (
	"os"
	"testing"
)

// TestMockDevices compiles the module in the file that GALLEY_MOCK_MODULE names for eight devices of which seven are not
// there. It runs only where asked for: some versions of the plugin wait for the missing ones.
func TestMockDevices(t *testing.T) {
	path := os.Getenv("GALLEY_MOCK_MODULE")
	if path == "" {
		t.Skip("GALLEY_MOCK_MODULE is not set")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(Config{Options: map[string]any{
		"enable_mock_nccl": true, "mock_gpu_topology": "8x1x1", "num_nodes": int64(8), "node_id": int64(0),
	}})
	if err != nil {
		t.Skipf("no accelerator: %v", err)
	}
	d := b.(*Device)
	all, err := d.pjrt.AllDevices()
	t.Logf("%d devices, %v", len(all), err)
	exe, err := d.pjrt.Compile().WithStableHLO(text).WithShardy(8).Done()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("compiled: %+v", exe.OnDeviceMemoryUsageStats)
}
