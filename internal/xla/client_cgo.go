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

	"github.com/galley-ml/galley/backend"
	"github.com/galley-ml/galley/internal/hlo"
)

// client is a plugin's client, which its devices share. Programs are started one after another on a goroutine
// of their own, ahead of the devices, so that neither they nor the caller wait.
type client struct {
	engine
	pjrt   *pjrt.Client
	target hlo.Target
	// products returns the least share of the devices' SMs that product kernels must keep busy; 0 if there are
	// none for these devices.
	products  func() float64
	dump      func(name, text string)
	overrides map[string]bool
	cache     *cache
	all       []*Device

	queue chan func()
	idle  sync.WaitGroup

	mu       sync.Mutex
	programs map[[sha256.Size]byte]*program
	launches int
	closed   bool
}

// program is a compiled text; equal texts are compiled once.
type program struct {
	once   sync.Once
	exe    handle
	memory backend.Memory
	err    error
}

// queued is the number of runs that may be queued before Run blocks.
const queued = 64

// Open loads a plugin and opens its devices. The backend is the first of them, and a backend.Group of all.
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
	klog.LogToStderr(false) // failures are returned as errors instead
	klog.SetOutput(io.Discard)
	plugin, err := pjrt.GetPlugin(path)
	if err != nil {
		return nil, fmt.Errorf("xla: plugin %s: %w", path, brief(err))
	}
	p, err := create(plugin, c)
	if err != nil {
		return nil, fmt.Errorf("xla: plugin %s: no device: %w", path, brief(err))
	}
	return newClient(api, p, c)
}

// newClient finds the devices that this process can use; all of them if some are mocked.
func newClient(api handle, p *pjrt.Client, config Config) (*Device, error) {
	c := &client{engine: newEngine(api, p), pjrt: p, dump: config.Dump, queue: make(chan func(), queued),
		programs: map[[sha256.Size]byte]*program{}}
	c.overrides = config.overrides()
	places, err := c.places()
	if err != nil {
		return nil, fmt.Errorf("xla: plugin %s: devices: %w", p.Plugin().Path(), err)
	}
	for _, at := range places {
		if at.here || config.Mock > 0 {
			c.all = append(c.all, &Device{client: c, place: at})
		}
	}
	if len(c.all) == 0 || !c.all[0].here {
		return nil, fmt.Errorf("xla: plugin %s has no device", p.Plugin().Path())
	}
	if c.cache, err = newCache(config.Cache, config.maker(p.Plugin().Path(),
		c.all[0].name+p.PlatformVersion())); err != nil {
		return nil, err
	}
	c.products = func() float64 { return 0 }
	if p.Platform() == "cuda" {
		c.target = hlo.CUDA
		c.products = sync.OnceValue(func() float64 {
			if c.hopper() && c.runsPTX() {
				return leastShare
			}
			return 0
		})
	}
	c.idle.Go(func() {
		for job := range c.queue {
			job()
		}
	})
	return c.all[0], nil
}

// opened returns an error if the client is closed.
func (c *client) opened() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fmt.Errorf("xla: %s is closed", c.all[0].name)
	}
	return nil
}

// compile returns a program for devices, compiled unless the same text was compiled before.
func (c *client) compile(name, text string, on []*Device) (*program, error) {
	o := options{overrides: c.overrides}
	for _, d := range on {
		o.devices = append(o.devices, d.id)
	}
	if len(on) == 1 {
		o.devices = nil // it can run on any device
	}
	opts := o.bytes()
	key := sha256.Sum256(append(opts, text...))
	c.mu.Lock()
	p, closed := c.programs[key], c.closed
	if p == nil {
		p = &program{}
		c.programs[key] = p
	}
	c.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("xla: %s is closed", on[0].name)
	}
	p.once.Do(func() {
		if c.dump != nil {
			c.dump(name, text)
		}
		if p.exe, p.err = c.build(key, text, opts); p.err != nil {
			p.err = fmt.Errorf("compile %s for %s: %w", name, describe(on), p.err)
			return
		}
		p.memory = c.engine.memory(p.exe)
	})
	return p, p.err
}

// build loads a program from the cache, or compiles it and stores it there.
func (c *client) build(key [sha256.Size]byte, text string, opts []byte) (handle, error) {
	if data := c.cache.get(key); data != nil {
		if exe := c.deserialize(data); exe != nil {
			return exe, nil
		}
	}
	exe, err := c.engine.compile(text, opts)
	if err == nil && c.cache != nil {
		c.cache.put(key, c.serialize(exe))
	}
	return exe, err
}

// describe returns a short description of devices.
func describe(on []*Device) string {
	if len(on) == 1 {
		return on[0].name
	}
	return fmt.Sprintf("%s and %d more", on[0].name, len(on)-1)
}

// submit queues a job for the client's goroutine.
func (c *client) submit(job func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fmt.Errorf("xla: %s is closed", c.all[0].name)
	}
	c.queue <- job
	return nil
}

// Close waits for running programs and releases all devices.
func (c *client) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	close(c.queue)
	c.mu.Unlock()
	c.idle.Wait()
	for _, p := range c.programs {
		if p.exe != nil {
			c.destroyProgram(p.exe)
		}
	}
	if err := c.pjrt.Destroy(); err != nil {
		return fmt.Errorf("xla: close: %w", brief(err))
	}
	return nil
}
