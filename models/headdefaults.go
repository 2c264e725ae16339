package models

// headsLeftOut returns the defaults of num_key_value_heads and head_dim for a family, as in transformers. 0,
// which null also means, stands for as many key heads as query heads, and an equal share of the hidden size.
func headsLeftOut(family string) (kvHeads, headDim int) {
	switch family {
	case "mistral", "ministral", "mixtral":
		return 8, 0
	case "qwen2":
		return 32, 0
	case "qwen3":
		return 32, 128
	case "qwen3_moe":
		return 4, 0
	case "gemma":
		return 16, 256
	case "gemma2", "gemma3_text":
		return 4, 256
	case "starcoder2":
		return 2, 0
	case "glm", "glm4":
		return 2, 128
	case "gpt_oss":
		return 8, 64
	case "glm4_moe":
		return 8, 0
	case "stablelm":
		return 32, 0
	case "smollm3":
		return 4, 0
	case "qwen2_moe":
		return 16, 0
	case "ernie4_5":
		return 2, 128
	case "ernie4_5_moe":
		return 4, 0
	}
	return 0, 0
}

// countUnlessNull returns a key's number: def if it is omitted, 0 if it is null.
func (r *reader) countUnlessNull(key string, def int) int {
	if _, given := r.raw[key]; given {
		def = 0
	}
	return r.count(key, def)
}
