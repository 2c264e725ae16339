//go:build cgo && linux

package xla

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/gomlx/go-xla/pjrt"
	"k8s.io/klog/v2"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/backend"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ir"
)

// Device is one accelerator behind a plugin. Programs are started one after another on a goroutine of their own, ahead of the
// device, so that neither it nor the caller waits.
type Device struct {
	engine
	pjrt   *pjrt.Client
	target hlo.Target
	name   string
	dump   func(name, text string)

	queue chan func()
	idle  sync.WaitGroup

	mu       sync.Mutex
	programs map[[sha256.Size]byte]*program
	closed   bool
}

// program is a text that is compiled once, however many ask for it.
type program struct {
	once sync.Once
	exe  *pjrt.LoadedExecutable
	err  error
}

// queued is how many runs may wait for the device before Run blocks.
const queued = 64

// Open loads a plugin and takes its first device.
func Open(c Config) (backend.Backend, error) {
	path, err := c.plugin()
	if err != nil {
		return nil, err
	}
	for name, value := range c.environment(path) {
		if err := os.Setenv(name, value); err != nil {
			return nil, fmt.Errorf("xla: %w", err)
		}
	}
	for _, lib := range libraries(path) {
		preload(lib)
	}
	api, err := peek(path)
	if err != nil {
		return nil, err
	}
	klog.LogToStderr(false) // what goes wrong comes back as an error
	klog.SetOutput(io.Discard)
	plugin, err := pjrt.GetPlugin(path)
	if err != nil {
		return nil, fmt.Errorf("xla: plugin %s: %w", path, brief(err))
	}
	client, err := plugin.NewClient(pjrt.NamedValuesMap(c.Options))
	if err != nil {
		return nil, fmt.Errorf("xla: plugin %s: no device: %w", path, brief(err))
	}
	return newDevice(api, client, c.Dump)
}

func newDevice(api handle, client *pjrt.Client, dump func(name, text string)) (*Device, error) {
	devices := client.AddressableDevices()
	if len(devices) == 0 {
		return nil, fmt.Errorf("xla: plugin %s has no device", client.Plugin().Path())
	}
	d := &Device{engine: newEngine(api, client, devices[0]), pjrt: client, name: client.Platform(), dump: dump, queue: make(chan func(), queued), programs: map[[sha256.Size]byte]*program{}}
	if info, err := devices[0].GetDescription(); err == nil {
		d.name = info.DebugString()
	}
	if client.Platform() == "cuda" {
		d.target = hlo.CUDA
	}
	d.idle.Go(func() {
		for job := range d.queue {
			job()
		}
	})
	return d, nil
}

// Name is the device as its plugin describes it.
func (d *Device) Name() string { return d.name }

// Put copies an array to the device.
func (d *Device) Put(a array.Array) (backend.Buffer, error) {
	b, err := d.put(a)
	if err != nil {
		return nil, fmt.Errorf("xla: copy of %v to %s: %w", ir.TypeOf(a), d.name, err)
	}
	return ready(d, ir.TypeOf(a), b), nil
}

// submit gives a job to the device's goroutine.
func (d *Device) submit(job func()) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return fmt.Errorf("xla: %s is closed", d.name)
	}
	d.queue <- job
	return nil
}

// Close waits for what runs and gives the device back.
func (d *Device) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	close(d.queue)
	d.mu.Unlock()
	d.idle.Wait()
	var first error
	for _, p := range d.programs {
		if err := p.exe.Destroy(); err != nil && first == nil {
			first = fmt.Errorf("xla: close: %w", brief(err))
		}
	}
	if err := d.pjrt.Destroy(); err != nil && first == nil {
		first = fmt.Errorf("xla: close: %w", brief(err))
	}
	return first
}
