//go:build cgo && linux

package xla

import (
	"encoding/hex"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/backend"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// fake is a plugin that returns arguments as results, compiled with the interface's own header.
func fake(t *testing.T, c Config) backend.Backend {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/gomlx/go-xla").Output()
	if err != nil {
		t.Skipf("no module directory: %v", err)
	}
	c.Plugin = filepath.Join(t.TempDir(), "plugin.so")
	if text, err := exec.Command("gcc", "-shared", "-fPIC", "-I", filepath.Join(strings.TrimSpace(string(dir)), "pjrt"), "-o", c.Plugin, "testdata/plugin.c").CombinedOutput(); err != nil {
		t.Skipf("no C compiler: %v\n%s", err, text)
	}
	b, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// pair is a program of two numbers.
func pair(t *testing.T, name string) *ir.Func {
	t.Helper()
	b := ir.NewBuilder(name)
	x, y := b.Param("x", ir.Type{DType: array.F64}), b.Param("y", ir.Type{DType: array.F64})
	f, err := b.Build(op.Neg(x), op.Neg(y))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestTogetherCalls: several devices are called as the interface's header says. Each gets its own arguments, has its own
// results, and gives up what is donated; nothing is left when the client closes.
func TestTogetherCalls(t *testing.T) {
	b := fake(t, Config{})
	devices := b.(backend.Group).Devices()
	if len(devices) != 4 || devices[0] != b {
		t.Fatalf("got %d devices, want four, the backend first", len(devices))
	}
	f := pair(t, "pair")
	exe, err := b.(backend.Group).Together([]*ir.Func{f, f, f}, backend.Options{Donate: []int{1}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := exe.Memory(), (backend.Memory{Arena: 7, Params: 100, Results: 50}); got != want {
		t.Errorf("memory: got %+v, want %+v", got, want)
	}
	var args []backend.Buffer
	for i, d := range devices[:3] {
		for k := range 2 {
			x, err := d.Put(array.Scalar(float64(10*i + k)))
			if err != nil {
				t.Fatal(err)
			}
			args = append(args, x)
		}
	}
	for range 3 {
		out, err := exe.Run(args)
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range out {
			a, err := x.Read()
			if want := float64(10*(i/2) + i%2); err != nil || a.At(0) != want {
				t.Fatalf("result %d: got %v, %v, want %v", i, a, err, want)
			}
			if i%2 == 0 {
				x.Free()
				continue
			}
			if _, err := args[i].Read(); err == nil {
				t.Errorf("argument %d was donated and can be read", i)
			}
			args[i] = x
		}
	}
	one, err := devices[2].Compile(f, backend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := one.Run(args[4:])
	if err != nil {
		t.Fatal(err)
	}
	if a, err := out[1].Read(); err != nil || a.At(0) != 21 {
		t.Errorf("one device alone: got %v, %v, want 21", a, err)
	}
	for _, x := range append(args, out...) {
		x.Free()
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// TestCompileOptions: the plugin gets the devices' numbers, and its whole message comes back.
func TestCompileOptions(t *testing.T) {
	b := fake(t, Config{})
	defer b.Close()
	f := pair(t, "refuse")
	for _, c := range []struct {
		devices int
		want    wire
	}{
		{1, wire(nil).bytes(3, wire(nil).number(1, -1).number(4, 1).number(5, 1)).number(4, 1)},
		{3, wire(nil).bytes(3, wire(nil).number(1, -1).number(4, 3).number(5, 1).bytes(9,
			wire(nil).number(1, 3).number(2, 1).bytes(3, wire(nil).bytes(1, []byte{10, 11, 12}))))},
	} {
		_, err := b.(backend.Group).Together([]*ir.Func{f, f, f}[:c.devices], backend.Options{})
		full, ok := errors.AsType[*PluginError](err)
		if !ok || full.Line != "INTERNAL: it is refused" || strings.Contains(err.Error(), "\n") {
			t.Fatalf("got %v, want the plugin's first line", err)
		}
		if want := "options " + hex.EncodeToString(c.want); !strings.HasSuffix(full.Full, want) {
			t.Errorf("%d devices: got %q, want %q", c.devices, full.Full, want)
		}
	}
}

// TestMockedDevices: a program for devices that are not there compiles, and runs on the one that is.
func TestMockedDevices(t *testing.T) {
	b := fake(t, Config{Mock: 8})
	f := pair(t, "pair")
	devices := b.(backend.Group).Devices()
	if len(devices) != 8 {
		t.Fatalf("got %d devices, want 8", len(devices))
	}
	fs, args := make([]*ir.Func, 8), []backend.Buffer(nil)
	for i, d := range devices {
		fs[i] = f
		for range 2 {
			x, err := d.Put(array.Scalar(float64(i + 1)))
			if err != nil {
				t.Fatal(err)
			}
			args = append(args, x)
		}
	}
	exe, err := b.(backend.Group).Together(fs, backend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := exe.Run(args)
	if err != nil {
		t.Fatal(err)
	}
	if a, err := out[0].Read(); err != nil || a.At(0) != 1 {
		t.Errorf("got %v, %v, want 1", a, err)
	}
	if _, err := out[15].Read(); err == nil || !strings.Contains(err.Error(), "mocked") {
		t.Errorf("a mocked device's result: got %v", err)
	}
	for _, x := range append(args, out...) {
		x.Free()
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
