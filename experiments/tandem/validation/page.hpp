#pragma once

namespace tandem::program {

/// The text of page.html.
const char* validation_page();

}  // namespace tandem::program
