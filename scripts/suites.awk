# Reads the output of scripts/suites; writes one line per suite, fields separated by tabs:
#   suite  passed  failed  skipped  [note]...
# A suite is a test binary, named by its source file, or the doc-tests of a crate. Tests
# that skipped themselves, listed in the file REDRIVE_TEST_SKIPS as `suite<TAB>reason`, look
# like passed tests to cargo: here they move to the skipped ones.

{ gsub(/\033\[[0-9;]*m/, "") }

/^ +Running .* \(.*\)$/ {
    binary = $NF
    gsub(/[()]/, "", binary)
    open_suite(source_of(binary, $(NF - 1)))
    crate[suites] = binary
    gsub(/.*\/|-[0-9a-f]*$/, "", crate[suites])
}

/^ +Doc-tests / { open_suite("doc-tests " $2) }

/^test .* \.\.\. FAILED/ { note("FAILED: " test_name()) }

/^test .* \.\.\. ignored/ {
    reason = $0
    sub(/.* \.\.\. /, "", reason)
    skip(suites, reason)
}

/^test result: / {
    passed[suites] += $4
    failed[suites] += $6
    skipped[suites] += $8
    reported[suites] = 1
}

/^error: (test failed with exit status|doctest failed)/ { broken[suites] = 1 }

END {
    for (i = 1; i <= suites; i++) judge(i)
    move_own_skips()
    for (i = 1; i <= suites; i++) print name[i], passed[i], failed[i], skipped[i] notes[i] skips_of(i)
}

BEGIN { OFS = "\t" }

function open_suite(title) {
    name[++suites] = title
    passed[suites] = failed[suites] = skipped[suites] = 0
}

function note(text) { notes[suites] = notes[suites] "\t" text }

function test_name(   text) {
    text = $0
    sub(/^test /, "", text)
    sub(/ \.\.\. FAILED.*/, "", text)
    return text
}

# Cargo gives the path inside the package; the compiler's notes beside the binary give it
# inside the workspace, where it is unique.
function source_of(binary, path,   line, words, n, i) {
    if ((getline line < (binary ".d")) > 0) n = split(line, words, " ")
    close(binary ".d")
    for (i = 1; i <= n; i++) if (ends_with("/" words[i], "/" path)) return words[i]
    return path " (" binary ")"
}

function ends_with(text, end) {
    return length(text) >= length(end) && substr(text, length(text) - length(end) + 1) == end
}

# A suite that broke off prints no result, nor does one that brings its own harness.
function judge(i) {
    if (broken[i] && !failed[i]) {
        failed[i] = 1
        notes[i] = notes[i] "\tFAILED: ended without saying which test failed"
    } else if (!reported[i] && !broken[i]) {
        passed[i] = 1
    }
}

function move_own_skips(   file, line, fields, i) {
    file = ENVIRON["REDRIVE_TEST_SKIPS"]
    while (file != "" && (getline line < file) > 0) {
        split(line, fields, "\t")
        i = suite_of(fields[1])
        if (!i) {
            open_suite(fields[1])
            i = suites
        }
        passed[i]--
        skipped[i]++
        skip(i, fields[2])
    }
}

# The suite that a test meant: its file, another file of its crate's src/ (of a library and
# a program the one with tests), or its crate or module path. One that cannot be told gets a
# row of its own, below nought passed, so that the columns add up.
function suite_of(title,   i, top) {
    for (i = 1; i <= suites; i++) if (name[i] == title) return i
    if (match(title, /.*\/src\//)) {
        top = substr(title, 1, RLENGTH)
        for (i = 1; i <= suites; i++) if (index(name[i], top) == 1 && passed[i] > 0) return i
    }
    sub(/::.*/, "", title)
    gsub(/-/, "_", title)
    for (i = 1; i <= suites; i++) if (crate[i] == title && passed[i] > 0) return i
    return 0
}

function skip(i, reason) {
    if (!((i, reason) in times)) reasons[i, ++kinds[i]] = reason
    times[i, reason]++
}

function skips_of(i,   k, text) {
    for (k = 1; k <= kinds[i]; k++)
        text = text "\tSKIPPED " times[i, reasons[i, k]] ": " reasons[i, k]
    return text
}
