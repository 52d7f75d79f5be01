#pragma once

namespace tandem::program {

/// The contents of page.html.
const char* validation_page();

}  // namespace tandem::program
