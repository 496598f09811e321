package dashboard

// AssetSizes returns the compressed sizes of the assets, by their names.
func AssetSizes(h *Handler) map[string]int {
	sizes := make(map[string]int)
	for name, f := range h.assets.files {
		sizes[name] = len(f.zip)
	}
	return sizes
}
