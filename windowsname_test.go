package courier

import "testing"

// What Windows takes for something else than the file of that name is refused
// before anything is opened.
func TestWindowsNames(t *testing.T) {
	for name, ok := range map[string]bool{
		`in/a.csv`: true, `C:\in\a.csv`: true, `C:/in/../a.csv`: true, `\\host\share\a`: true, "./a": true, "COM10": true, "console.txt": true, ".hidden": true, "a b": true,
		"CON": false, "in/nul.txt": false, `in\com1\x`: false, "LPT¹": false, "con .txt": false, "aux": false, "conin$": false,
		"a.": false, "in/a. /x": false, "a ": false, "a...": false, `in\...`: false,
		"a:b": false, "in/a.csv::$DATA": false, `C:\in\a:b`: false,
	} {
		if err := checkWindows(name); (err == nil) != ok {
			t.Errorf("checkWindows(%q) = %v, want ok %t", name, err, ok)
		} else if err != nil && !IsPermanent(err) {
			t.Errorf("checkWindows(%q): %v is not permanent", name, err)
		}
	}
}
