import "./styles/index.css";

import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { followAddress, namespace, openSession, token } from "./api/session";
import { startLive } from "./api/live";
import { makeClient } from "./api/queries";
import { router } from "./router";
import { fetchRest, NotFetched } from "./shell/pages";
import { applyPrefs } from "./ui/prefs";

openSession();
// In a tab that is open already, a token that is put into the address loads no page.
addEventListener("hashchange", openSession);
router.history.subscribe(({ location }) => followAddress(location.search));
applyPrefs();
const client = makeClient();
// What one key or namespace has read is nothing for another.
token.subscribe(() => client.clear());
namespace.subscribe(() => void client.resetQueries());
startLive();

const root = document.getElementById("root");
if (root) {
  // A page that could not be fetched says so itself, and is no fault of the console.
  const onCaughtError = (error: unknown) => (error instanceof NotFetched ? undefined : console.error(error));
  createRoot(root, { onCaughtError }).render(
    <StrictMode>
      <QueryClientProvider client={client}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </StrictMode>,
  );
}
fetchRest();
