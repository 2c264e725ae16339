package xla

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
)

// Config selects the plugin that runs programs, and how it compiles them. The zero value means the first
// plugin found.
type Config struct {
	// Plugin is the path of a PJRT plugin; empty means GALLEY_PLUGIN, else the first of Find.
	Plugin string
	// Flags are XLA's own, such as --xla_gpu_enable_cublaslt=true. They take effect with the first Open of a
	// process.
	Flags []string
	// Options are the plugin's own, such as memory_fraction: a string, int64, float32 or bool each.
	Options map[string]any
	// Mock, if more than 1, is the number of devices that CUDA's plugin simulates, on as many hosts: programs
	// for all of them compile, and run only on the first, whose collectives move no data. It is for inspecting
	// programs and their speed.
	Mock int
	// Cache, if set, is a directory in which compiled programs are kept for later processes. Its contents are
	// trusted: they are executed.
	Cache string
	// Values, if set, is the key-value store by which the plugins of several processes find each other, as for
	// NCCL across hosts. Options have the number of nodes (num_nodes) and this one's (node_id).
	Values KeyValues
	// Dump, if set, receives the StableHLO of every program before it is compiled.
	Dump func(name, text string)
}

// KeyValues is a key-value store shared by all processes of a job; process.Process implements it.
type KeyValues interface {
	// Put sets a value for all, Get waits for one, TryGet does not wait.
	Put(key string, value []byte) error
	Get(ctx context.Context, key string) ([]byte, error)
	TryGet(key string) ([]byte, bool)
}

// options returns the options of the plugin's client.
func (c Config) options() map[string]any {
	all := maps.Clone(c.Options)
	if c.Mock > 1 {
		if all == nil {
			all = map[string]any{}
		}
		all["enable_mock_nccl"], all["num_nodes"], all["mock_gpu_topology"] = true, int64(
			c.Mock,
		), fmt.Sprintf(
			"%dx1x1",
			c.Mock,
		)
	}
	return all
}

// sharedSearch is XLA's flag by which hosts share autotuning.
const sharedSearch = "xla_gpu_shard_autotuning"

// overrides returns XLA's flags for every program, unless the caller has set them. Mocked hosts would never
// return their share of the autotuning.
func (c Config) overrides() map[string]bool {
	if c.Mock > 1 && !strings.Contains(strings.Join(c.Flags, " "), sharedSearch) {
		return map[string]bool{sharedSearch: false}
	}
	return nil
}

// maker returns a text of all that the result of compilation depends on: the plugin's file, its version, its
// options and flags.
func (c Config) maker(plugin, says string) string {
	file := ""
	if info, err := os.Stat(plugin); err == nil {
		file = fmt.Sprint(info.Size(), info.ModTime().UnixNano())
	}
	return fmt.Sprintf("%s %s %s %v %s", plugin, file, says, c.options(), os.Getenv("XLA_FLAGS"))
}

// pluginEnv is the environment variable with a plugin's path.
const pluginEnv = "GALLEY_PLUGIN"

// Find returns the plugins in the usual places, the one that Open would use first. The path in the
// environment variable is returned even if no file is there: Open reports that.
func Find() []string {
	var found []string
	if p := os.Getenv(pluginEnv); p != "" {
		found = append(found, p)
	}
	for _, pattern := range places() {
		matches, _ := filepath.Glob(pattern)
		found = append(found, matches...)
	}
	return found
}

// places returns the paths where installers put plugins: JAX's and libtpu's wheels in any Python of the
// machine, and go-xla's own.
func places() []string {
	roots, own := []string{"/usr/local/lib", "/usr/lib", "/opt/*/.venv/lib", "/opt/*/lib"},
		[]string{"/usr/local/lib/go-xla"}
	// Without an absolute home directory nothing in the working directory may be used as a plugin.
	if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) {
		roots = append(roots, filepath.Join(home, ".local/lib"), filepath.Join(home, ".pyenv/versions/*/lib"))
		own = append([]string{filepath.Join(home, ".local/lib/go-xla")}, own...)
	}
	if v := os.Getenv("VIRTUAL_ENV"); filepath.IsAbs(v) {
		roots = append([]string{filepath.Join(v, "lib")}, roots...)
	}
	var list []string
	for _, root := range roots {
		for _, packages := range []string{"python3*/site-packages", "python3*/dist-packages",
			"python3/dist-packages"} {
			list = append(list, filepath.Join(root, packages, "jax_plugins/*/*_plugin.so"),
				filepath.Join(root, packages, "libtpu/libtpu.so"))
		}
	}
	for _, root := range own {
		list = append(list, filepath.Join(root, "*.so"), filepath.Join(root, "nvidia/*.so"))
	}
	return list
}

// plugin returns the absolute path of the configured plugin.
func (c Config) plugin() (string, error) {
	path := c.Plugin
	if path == "" {
		all := Find()
		if len(all) == 0 {
			return "", fmt.Errorf(
				"xla: no PJRT plugin found: install one (pip install jax[cuda13]) or set %s to its path",
				pluginEnv,
			)
		}
		path = all[0]
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", fmt.Errorf("xla: plugin: %w", err)
	case info.IsDir():
		return "", fmt.Errorf("xla: plugin: %s is a directory: want the path of a .so file", path)
	}
	return filepath.Abs(path)
}

// libraries returns the vendor's libraries in wheels beside a plugin, ordered so that each finds its
// dependencies. The dynamic linker does not search there by itself.
func libraries(plugin string) []string {
	packages := filepath.Dir(filepath.Dir(filepath.Dir(plugin)))
	var list []string
	for _, name := range []string{
		"libcudart", "libnvJitLink", "libnvrtc", "libcublasLt", "libcublas", "libcufft", "libcusparse",
		"libcusolver", "libcupti",
		"libnccl", "libnvshmem_host", "libcudnn",
	} {
		matches, _ := filepath.Glob(filepath.Join(packages, "nvidia/*/lib", name+".so*"))
		list = append(list, matches...)
	}
	return list
}

// toolkit returns the directory of CUDA's tools beside a plugin; empty if there is none.
func toolkit(plugin string) string {
	packages := filepath.Dir(filepath.Dir(filepath.Dir(plugin)))
	matches, _ := filepath.Glob(filepath.Join(packages, "nvidia/*/bin/ptxas"))
	if len(matches) == 0 {
		return ""
	}
	return filepath.Dir(filepath.Dir(matches[0]))
}

// cudaFlags are the default flags for CUDA; later flags override them. Fusing the producers of a product into
// Triton's kernel for it recomputes them for every product that reads them: cuBLAS alone is faster, and
// compiles in half the time.
var cudaFlags = []string{"--xla_gpu_enable_triton_gemm=false"}

// environment returns the variables that a plugin reads once, when it is first used.
func (c Config) environment(plugin string) map[string]string {
	var flags []string
	if strings.Contains(filepath.Base(plugin), "cuda") {
		flags = append(flags, cudaFlags...)
	}
	flags = append(append(flags, strings.Fields(os.Getenv("XLA_FLAGS"))...), c.Flags...)
	if dir := toolkit(plugin); dir != "" && !strings.Contains(strings.Join(flags, " "),
		"xla_gpu_cuda_data_dir") {
		flags = append(flags, "--xla_gpu_cuda_data_dir="+dir)
	}
	env := map[string]string{"XLA_FLAGS": strings.Join(flags, " ")}
	if os.Getenv("TF_CPP_MIN_LOG_LEVEL") == "" {
		env["TF_CPP_MIN_LOG_LEVEL"] = "2" // warnings that matter are returned as errors
	}
	return env
}
