package hlo

import (
	"fmt"
	"slices"
)

// KernelTarget is the custom call that runs a kernel given as text in Triton's IR.
const KernelTarget = "__gpu$xla.gpu.triton"

// PTXTarget is the custom call that runs a kernel given as text in PTX.
const PTXTarget = "__gpu$xla.gpu.ptx"

// PTXConfig returns the configuration of a call of a PTX kernel.
func PTXConfig(name, text string, blocks, threads, shared int) string {
	return fmt.Sprintf(`{block_x = %d : i32, block_y = 1 : i32, block_z = 1 : i32, grid_x = %d : i32, grid_y = 1 : i32, grid_z = 1 : i32, kernel_data = %s, kernel_type = "ptx", name = "%s", shared_mem_bytes = %d : i32}`,
		threads, blocks, Quote(text), name, shared)
}

// customRule checks that there is a layout for every operand and result.
func customRule(o *Operation) error {
	target, ok := o.Attr("call_target_name").(TextAttr)
	if !ok {
		return fmt.Errorf("call_target_name is missing")
	}
	for name, types := range map[string][]TensorType{"operand_layouts": o.In, "result_layouts": o.Out} {
		layouts, ok := o.Attr(name).(ListAttr)
		if !ok || len(layouts) != len(types) {
			return fmt.Errorf("%s: want %d layouts", name, len(types))
		}
		for i, l := range layouts {
			perm, err := IntsOf(l)
			if err != nil || !isPermutation(perm, len(types[i].Shape)) {
				return fmt.Errorf("%s: %v is no layout of %v", name, l, types[i])
			}
			if (target == KernelTarget || target == PTXTarget) &&
				!slices.IsSortedFunc(perm, func(a, b int) int { return b - a }) {
				return fmt.Errorf("%s: got %v for %v: a kernel wants rows one after the other", name, l, types[i])
			}
		}
	}
	switch target {
	case KernelTarget:
		return kernelRule(o, []string{"name", "ir"},
			[]string{"grid_x", "grid_y", "grid_z", "num_stages", "num_warps"})
	case PTXTarget:
		return kernelRule(o, []string{"name", "kernel_data", "kernel_type"},
			[]string{"block_x", "block_y", "block_z", "grid_x", "grid_y", "grid_z", "shared_mem_bytes"})
	}
	return nil
}

// kernelRule checks the configuration of a kernel's call.
func kernelRule(o *Operation, texts, numbers []string) error {
	if v, ok := o.Attr("api_version").(NumberAttr); !ok || v != (NumberAttr{"4", "i32"}) {
		return fmt.Errorf("api_version is %v: want 4 : i32", o.Attr("api_version"))
	}
	config, ok := o.Attr("backend_config").(DictAttr)
	if !ok {
		return fmt.Errorf("backend_config is %v: want a dictionary", o.Attr("backend_config"))
	}
	for _, name := range texts {
		if text, ok := config.Field(name).(TextAttr); !ok || text == "" {
			return fmt.Errorf("backend_config: %s is %v: want a text", name, config.Field(name))
		}
	}
	for _, name := range numbers {
		a, _ := config.Field(name).(NumberAttr)
		n, err := IntsOf(a)
		least := 1
		if name == "shared_mem_bytes" {
			least = 0
		}
		if err != nil || a.Type != "i32" || n[0] < least || name == "num_warps" && n[0]&(n[0]-1) != 0 {
			return fmt.Errorf("backend_config: %s is %v: want an i32 from %d, and a power of two of warps", name,
				config.Field(name), least)
		}
	}
	return nil
}
