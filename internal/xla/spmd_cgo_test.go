//go:build cgo && linux

package xla

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/op"
)

// fake returns a plugin that returns arguments as results, compiled with the interface's own header.
func fake(t *testing.T) string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/gomlx/go-xla").Output()
	if err != nil {
		t.Skipf("no module directory: %v", err)
	}
	path := filepath.Join(t.TempDir(), "plugin.so")
	if text, err := exec.Command("gcc", "-shared", "-fPIC", "-I",
		filepath.Join(strings.TrimSpace(string(dir)), "pjrt"), "-o", path,
		"testdata/plugin.c").CombinedOutput(); err != nil {
		t.Skipf("no C compiler: %v\n%s", err, text)
	}
	return path
}

func openFake(t *testing.T, c Config) backend.Backend {
	t.Helper()
	b, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// pair returns a program of two numbers.
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

// TestCompileSPMDCalls: several devices are called as the interface's header says. Each gets its own
// arguments, has its own results, and gives up what is donated; nothing is left when the client closes.
func TestCompileSPMDCalls(t *testing.T) {
	b := openFake(t, Config{Plugin: fake(t)})
	devices := b.(backend.Group).Devices()
	if len(devices) != 4 || devices[0] != b {
		t.Fatalf("got %d devices, want four, the backend first", len(devices))
	}
	f := pair(t, "pair")
	exe, err := b.(backend.Group).CompileSPMD([]*ir.Func{f, f, f}, backend.Options{Donate: []int{1}})
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
	b := openFake(t, Config{Plugin: fake(t)})
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
		_, err := b.(backend.Group).CompileSPMD([]*ir.Func{f, f, f}[:c.devices], backend.Options{})
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
	b := openFake(t, Config{Plugin: fake(t), Mock: 8})
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
	exe, err := b.(backend.Group).CompileSPMD(fs, backend.Options{})
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

// TestCache: a program that another process compiled is taken from the cache, unless the file is damaged, the
// plugin does not take it, or it is of another plugin.
func TestCache(t *testing.T) {
	c := Config{Plugin: fake(t), Cache: t.TempDir()}
	f := pair(t, "pair")
	// compiles reports whether the program is compiled, and not taken from the cache.
	compiles := func() bool {
		t.Helper()
		b := openFake(t, c)
		defer b.Close()
		exe, err := b.(backend.Group).CompileSPMD([]*ir.Func{f, f}, backend.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return exe.Memory().Arena == 7
	}
	if !compiles() || compiles() {
		t.Fatal("want the first to be compiled and the next to be taken from the cache")
	}
	files, err := filepath.Glob(filepath.Join(c.Cache, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("got files %v, want one", files)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	refused := (&cache{dir: t.TempDir()}).written(t, "no program of this plugin")
	for name, text := range map[string][]byte{
		"damaged": append(bytes.Clone(whole[:len(whole)-1]),
			'9'), "cut": whole[:20], "empty": nil, "other": []byte("a letter"), "refused": refused,
	} {
		if err := os.WriteFile(files[0], text, 0o644); err != nil {
			t.Fatal(err)
		}
		if !compiles() || compiles() {
			t.Errorf("%s: want it to be compiled again, and kept", name)
		}
	}
	if err := os.Chtimes(c.Plugin, time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if !compiles() {
		t.Error("the plugin has changed: want it to be compiled again")
	}
}

// written returns a file of the cache that holds text.
func (c *cache) written(t *testing.T, text string) []byte {
	t.Helper()
	c.put([32]byte{}, []byte(text))
	file, err := os.ReadFile(c.path([32]byte{}))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestOtherTriton: a plugin that cannot read our kernels gets the program without them.
func TestOtherTriton(t *testing.T) {
	var texts []string
	b := openFake(t, Config{Plugin: fake(t), Dump: func(_, text string) { texts = append(texts, text) }})
	b.(*Device).client.target = hlo.CUDA
	builder := ir.NewBuilder("norm")
	x := builder.Param("x", ir.Type{DType: array.BF16, Shape: array.Shape{2, 8}})
	gamma := builder.Param("gamma", ir.Type{DType: array.F32, Shape: array.Shape{8}})
	f, err := builder.Build(op.RMSNorm(op.Add(x, x), gamma, 1e-5))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Compile(f, backend.Options{}); err != nil {
		t.Fatal(err)
	}
	if len(texts) != 2 || !strings.Contains(texts[0], hlo.KernelTarget) ||
		strings.Contains(texts[1], hlo.KernelTarget) {
		t.Errorf("got %d modules, want one with kernels and one without", len(texts))
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// TestAttributes: what a plugin says of a device is read as the interface's header has it.
func TestAttributes(t *testing.T) {
	b := openFake(t, Config{Plugin: fake(t)})
	defer b.Close()
	c := b.(*Device).client
	for name, want := range map[string]struct {
		text   string
		number int
	}{"compute_capability": {"9.0", 0}, "core_count": {"", 114}, "core": {"", 0}, "": {"", 0}} {
		if text, number := c.attribute(c.all[0].device, name); text != want.text || number != want.number {
			t.Errorf("%q: got %q and %d, want %q and %d", name, text, number, want.text, want.number)
		}
	}
}

// TestProbe: the module that tries kernels is one that can be read.
func TestProbe(t *testing.T) {
	if _, err := hlo.Parse(probe()); err != nil {
		t.Error(err)
	}
}

// TestOtherProducts: a plugin that refuses kernels of products gets the program without these first.
func TestOtherProducts(t *testing.T) {
	var texts []string
	b := openFake(t, Config{Plugin: fake(t), Dump: func(_, text string) { texts = append(texts, text) }})
	c := b.(*Device).client
	if c.runsPTX() {
		t.Error("a plugin without kernels is said to run them")
	}
	if c.hopper() {
		t.Error("kernels for 132 units are said to be for 114")
	}
	c.target, c.products = hlo.CUDA, func() float64 { return 1e-9 }
	builder := ir.NewBuilder("gated")
	x := builder.Param("x", ir.Type{DType: array.BF16, Shape: array.Shape{256, 256}})
	w := builder.Param("w", ir.Type{DType: array.BF16, Shape: array.Shape{512, 256}})
	halves := op.Chunk(op.MatMulT(x, w, false, true), -1, 2)
	f, err := builder.Build(op.SwiGLU(halves[0], halves[1]))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Compile(f, backend.Options{}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct{ products, kernels bool }{{true, false}, {false, true}, {false, false}} {
		if len(texts) != 3 || strings.Contains(texts[i], hlo.PTXTarget) != want.products ||
			strings.Contains(texts[i], hlo.KernelTarget) != want.kernels {
			t.Fatalf(
				"got %d modules, want one with the product in a kernel, one with a kernel behind it, and one without any",
				len(texts),
			)
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	c.products = func() float64 {
		t.Error("a client that is closed is asked for its devices")
		return 0
	}
	if _, err := b.Compile(f, backend.Options{}); err == nil || !strings.Contains(err.Error(), "is closed") {
		t.Errorf("got %v, want an error that says that it is closed", err)
	}
}
