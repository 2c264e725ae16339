package models

// smollmFamilies returns smollm3: Llama with some layers without rotary positions.
func smollmFamilies() []family {
	return []family{like(family{
		name: "smollm3", architecture: "SmolLM3ForCausalLM", eps: 1e-6, theta: 2e6, positions: 32768, pad: 128004,
		tied: true, read: readSmolLM, write: writeSmolLM, check: checkSmolLM,
	})}
}
