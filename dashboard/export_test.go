package dashboard

// AssetSizes returns the compressed sizes of the assets, by their names.
func AssetSizes(h *Handler) map[string]int {
	sizes := make(map[string]int)
	for name, f := range h.assets.files {
		sizes[name] = len(f.zip)
	}
	return sizes
}

// A Page is what the tests see of a row of the table of pages.
type Page struct {
	Path, Op string
	All      bool              // it is about all jobs
	Actions  map[string]string // operations by verbs
}

// Table returns the rows of the table.
func Table(h *Handler) (list []Page) {
	for _, p := range h.table {
		row := Page{Path: p.path, Op: p.op, All: p.on == onAll, Actions: make(map[string]string)}
		for _, a := range p.actions {
			row.Actions[a.verb] = a.op
		}
		list = append(list, row)
	}
	return list
}
